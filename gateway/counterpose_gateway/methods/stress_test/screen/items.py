"""The items of a stress test: every slot of every source, listed before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from counterpose_core.blobs import cache_key
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate
from counterpose_core.stress_test.item_counts import CONTROLS, edits_per_source
from counterpose_core.types import EDIT_TYPES, EditType, ItemKind
from counterpose_gateway.methods.stress_test.regions import told_mask
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.source_table import SourceTable, TableSource
from counterpose_gateway.runs.seeds import derive_seed

_Slot = tuple[ItemKind, EditType | None, int]
"""Kind, edit type and number of one of a source's items."""


def slots_per_type(create: StressTestCreate, source_id: str) -> dict[EditType, int]:
    """Split ``max_edits_per_image`` evenly over the edit types; a source's seed draws who gets the rest."""
    types = [edit_type for edit_type in EDIT_TYPES if edit_type in create.edit_types]
    share, rest = divmod(create.max_edits_per_image, len(types))
    favoured = set[int]()
    # Without a rest, as by default, nothing is drawn: a generator costs more than all the slots of a source.
    if rest:
        generator = np.random.default_rng(derive_seed(create.seed, source_id, "split"))
        favoured.update(generator.permutation(len(types))[:rest].tolist())
    return {edit_type: share + (index in favoured) for index, edit_type in enumerate(types)}


def plan_items(
    config: StressTestConfig, screened: SourceTable, fresh: SourceTable, *, first: int = 0
) -> Iterator[PlannedItem]:
    """Plan every slot of the screened sources, then captions of the fresh ones, from ``first`` on."""
    per_source, config_hash = edits_per_source(config.request), items_hash(config)
    done, begun = divmod(min(first, len(screened) * per_source), per_source)
    slots = (
        _item(config, config_hash, source, place, number * per_source + place_number)
        for number, source in enumerate(screened.rows(done), start=done)
        for place_number, place in enumerate(_slots(config.request, source.id))
    )
    yield from islice(slots, begun, None)
    captioned = max(0, first - len(screened) * per_source)
    captions_from = len(screened) * per_source + captioned
    yield from plan_captions(config, fresh.rows(captioned), first=captions_from, hashed=config_hash)


def _item(
    config: StressTestConfig, config_hash: str, source: TableSource, place: _Slot, ordinal: int
) -> PlannedItem:
    kind, edit_type, slot = place
    key = cache_key(
        source=source.id,
        object_class=source.label,
        edit_type=edit_type or kind,
        slot=config.request.interventions[slot].key if kind == "intervention" else slot,
        seed=config.request.seed,
        config=config_hash,
    )
    return PlannedItem(
        item_key=key,
        ordinal=ordinal,
        kind=kind,
        item_group=source.id,
        source_image=source.image,
        label=source.label,
        edit_type=edit_type,
        slot=slot,
        caption=source.caption,
        labels=source.labels,
        instruction=told_mask(config, source),
    )


def plan_captions(
    config: StressTestConfig, fresh: Iterable[Source | TableSource], *, first: int, hashed: str | None = None
) -> Iterator[PlannedItem]:
    """Plan the caption of each source that is kept for confirmation, with ordinals from ``first`` on.

    The captions tell which changes apply to which image, so later stages plan no edit in vain. ``hashed`` is
    the `items_hash` of the configuration, if it is known.
    """
    config_hash = hashed or items_hash(config)
    for ordinal, source in enumerate(fresh, start=first):
        yield PlannedItem(
            item_key=cache_key(
                source=source.id, object_class=source.label, edit_type="caption", config=config_hash
            ),
            ordinal=ordinal,
            kind="caption",
            item_group=source.id,
            source_image=source.image,
            label=source.label,
            caption=source.caption,
            labels=source.labels,
            instruction=told_mask(config, source),
        )


def items_hash(config: StressTestConfig) -> str:
    """Return the hash of the configuration that item keys contain."""
    # From the stored configuration: an upgrade in the middle of a run changes no item's key. How many
    # baseline edits or which interventions are added, which sources are kept for confirmation or are alike,
    # what draws them again, what a run is to prove, or operations beside them, changes no other item, and nor
    # do notes or how a function was written.
    request = {
        "function_specs",
        "lance_r_edits_per_image",
        "interventions",
        "confirm",
        "confirm_share",
        "near_duplicates",
        # What is in force is hashed with the preset and the thresholds of the configuration.
        "strength",
        "thresholds",
        "outside_suite",
        "applied_from",
        "transforms",
    }
    hashed = config.model_dump(
        mode="json",
        exclude={
            "request": request,
            "confirmation": True,
            "redraw": True,
            "transforms": True,
            "proof": True,
            "grouping": True,
            "notes": True,
            "baseline": True,
            "known_images": True,
            "calibrations": True,
            "judged_by": True,
        },
    )
    return cache_key(config=hashed)


def _slots(create: StressTestCreate, source_id: str) -> list[_Slot]:
    controls: list[_Slot] = [(kind, None, 0) for kind in CONTROLS]
    edits: list[_Slot] = [
        ("edit", edit_type, slot)
        for edit_type, number in slots_per_type(create, source_id).items()
        for slot in range(number)
    ]
    baseline: list[_Slot] = [("lance-r", None, slot) for slot in range(create.lance_r_edits_per_image)]
    chosen: list[_Slot] = [("intervention", None, slot) for slot in range(len(create.interventions))]
    return controls + edits + baseline + chosen
