"""Planning of a stress test: every slot of every source, named before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from itertools import chain, zip_longest

import numpy as np

from faultline_core.blobs import cache_key
from faultline_core.contract.datasets import Dataset, Source
from faultline_core.contract.stress_tests import StressTestConfig, StressTestCreate
from faultline_core.errors import ClassMapMismatch, DatasetEmpty, InvalidRequest, UnknownModel
from faultline_core.suite import Suite
from faultline_core.types import EDIT_TYPES, EditType, ItemKind
from faultline_gateway.ports import Services
from faultline_gateway.version import VERSION
from faultline_gateway.work_items import PlannedItem
from faultline_gateway.workflows.asked_classifiers import check_classifiers
from faultline_gateway.workflows.chosen_words import check_interventions
from faultline_gateway.workflows.exclusion import leave_out

# Of those whose next version could move a figure.
VERSIONS = {"faultline": VERSION} | {name: metadata.version(name) for name in ("numpy", "scipy", "pydantic")}


async def plan(
    create: StressTestCreate, *, dataset: Dataset, sources: Sequence[Source], suite: Suite, services: Services
) -> tuple[StressTestConfig, list[PlannedItem]]:
    """Resolve the request and plan its items: each source's edits, controls, LANCE-R and interventions.

    Raises:
        DatasetEmpty: no source is left to test on.
        ClassMapMismatch: a label lies outside the dataset's classes or a classifier's class map.
        UnknownModel: a classifier or the suite's perturber does not exist.
        InvalidRequest: the suite's editor has no such preset, no source has a name to be excluded, or an
            intervention is no plain text.
    """
    check_interventions(create.interventions)
    left, excluded = leave_out(sources, create.exclude)
    chosen = choose_sources(left, dataset.classes, create.limit)
    if not chosen:
        but = f" but the {len(excluded)} that are excluded" if excluded else ""
        raise DatasetEmpty(f"dataset {dataset.name!r} holds no picture{but}")
    config = resolve(create, dataset=dataset, suite=suite).model_copy(update={"excluded": excluded})
    await check_classifiers(create.classifiers, dataset.classes, chosen[0].image, services)
    return config, _plan_items(config, chosen)


def choose_sources(sources: Sequence[Source], classes: Sequence[str], limit: int | None) -> list[Source]:
    """Take ``limit`` sources evenly over the classes, whatever order they come in.

    Raises:
        ClassMapMismatch: a source's label is none of ``classes``.
    """
    by_class: dict[str, dict[str, Source]] = {name: {} for name in classes}
    # By id and not by arrival: the same pictures make the same plan however they came in.
    for source in sorted(sources, key=lambda source: source.id):
        if source.label not in by_class:
            raise ClassMapMismatch(
                f"{source.filename!r} has the label {source.label!r}, not among the classes"
            )
        by_class[source.label][source.id] = source
    rounds = zip_longest(*(found.values() for found in by_class.values()))
    return [source for source in chain.from_iterable(rounds) if source is not None][:limit]


def resolve(create: StressTestCreate, *, dataset: Dataset, suite: Suite) -> StressTestConfig:
    """Write down all that the run depends on, once.

    Raises:
        InvalidRequest: the preset is not the suite's.
        UnknownModel: the suite names no perturber.
    """
    if create.preset not in suite.editor.presets:
        offered = ", ".join(sorted(suite.editor.presets))
        raise InvalidRequest(
            f"suite {suite.name!r} has no preset {create.preset!r}; it offers {offered}", pointer="/preset"
        )
    if suite.perturber is None:
        raise UnknownModel(f"suite {suite.name!r} names no perturber")
    return StressTestConfig(
        request=create,
        suite=suite.name,
        preset=suite.editor.presets[create.preset],
        gate=suite.scorer.gate,
        text=suite.scorer.text,
        models=_model_names(suite, suite.perturber.model),
        versions=VERSIONS,
        dataset_digest=dataset.digest,
        classes=list(dataset.classes),
        objectionable=suite.scorer.objectionable,
    )


def _model_names(suite: Suite, perturber: str) -> dict[str, str]:
    return {
        "captioner": suite.captioner.model,
        "perturber": perturber,
        "editor": suite.editor.model,
        "scorer": suite.scorer.clip,
        "sentence": suite.scorer.sentence,
        "masked-lm": suite.scorer.masked_lm,
    }


def items_per_source(create: StressTestCreate) -> int:
    """Return how many items each source is planned with."""
    return len(_slots(create, ""))


def slots_per_type(create: StressTestCreate, source_id: str) -> dict[EditType, int]:
    """Split ``max_edits_per_image`` evenly over the edit types; a source's seed draws who gets the rest."""
    types = [edit_type for edit_type in EDIT_TYPES if edit_type in create.edit_types]
    share, rest = divmod(create.max_edits_per_image, len(types))
    generator = np.random.default_rng(derive_seed(create.seed, source_id, "split"))
    favoured = set(generator.permutation(len(types))[:rest].tolist())
    return {edit_type: share + (index in favoured) for index, edit_type in enumerate(types)}


def derive_seed(seed: int, *names: str | int) -> int:
    """A seed below 2**63 of its own for each name under one run's seed."""
    # 63 bits: SQL's integers, and with them the contract's seeds, are signed.
    return int(cache_key(seed=seed, names=names)[:16], 16) >> 1


def _plan_items(config: StressTestConfig, sources: Sequence[Source]) -> list[PlannedItem]:
    # Of the stored configuration: an upgrade in the middle of a run gives no item another key. How many
    # baseline edits go beside them, or which interventions, changes no other item.
    apart = {"request": {"lance_r_edits_per_image", "interventions"}}
    config_hash = cache_key(config=config.model_dump(mode="json", exclude=apart))
    items: list[PlannedItem] = []
    for source in sources:
        for kind, edit_type, slot in _slots(config.request, source.id):
            key = cache_key(
                source=source.id,
                object_class=source.label,
                edit_type=edit_type or kind,
                slot=config.request.interventions[slot].key if kind == "intervention" else slot,
                seed=config.request.seed,
                config=config_hash,
            )
            items.append(
                PlannedItem(
                    item_key=key,
                    ordinal=len(items),
                    kind=kind,
                    source_id=source.id,
                    source_image=source.image,
                    label=source.label,
                    edit_type=edit_type,
                    slot=slot,
                    caption=source.caption,
                )
            )
    return items


def _slots(create: StressTestCreate, source_id: str) -> list[tuple[ItemKind, EditType | None, int]]:
    controls: list[tuple[ItemKind, EditType | None, int]] = [
        ("reconstruction", None, 0),
        ("placebo", None, 0),
    ]
    edits: list[tuple[ItemKind, EditType | None, int]] = [
        ("edit", edit_type, slot)
        for edit_type, number in slots_per_type(create, source_id).items()
        for slot in range(number)
    ]
    baseline: list[tuple[ItemKind, EditType | None, int]] = [
        ("lance-r", None, slot) for slot in range(create.lance_r_edits_per_image)
    ]
    chosen: list[tuple[ItemKind, EditType | None, int]] = [
        ("intervention", None, slot) for slot in range(len(create.interventions))
    ]
    return controls + edits + baseline + chosen
