"""Planning of a dataset interface: one item a class, classes that learn together in one group."""

from __future__ import annotations

import json
from collections.abc import Sequence

from faultline_core.blobs import BlobStore, cache_key
from faultline_core.class_slot import refuse_slot
from faultline_core.contract.dataset_interfaces import (
    CLASS_NAME,
    DatasetInterfaceConfig,
    DatasetInterfaceCreate,
)
from faultline_core.contract.datasets import Dataset, Source
from faultline_core.contract.tokens import MAX_IMAGES, TextualInversionPreset
from faultline_core.errors import ClassMapMismatch, DatasetEmpty, InvalidRequest
from faultline_core.suite import Suite
from faultline_core.texts import check_words, twins
from faultline_gateway.version import VERSION
from faultline_gateway.work_items import PlannedItem
from faultline_gateway.workflows.planning import derive_seed

TOGETHER = 8
"""Classes that are learned in one batch."""
COMPARED_CLASSES = 16
COMPARED_PICTURES = 12
"""Whose captions, and of how many pictures each, tell a class's own words from what is usual."""


def plan_interface(
    create: DatasetInterfaceCreate,
    *,
    dataset: Dataset,
    sources: Sequence[Source],
    suite: Suite,
    store: BlobStore,
) -> tuple[DatasetInterfaceConfig, list[PlannedItem]]:
    """Resolve the request and plan an item for each class that has pictures.

    Raises:
        DatasetEmpty: no class that is asked for has a picture.
        ClassMapMismatch: two classes cannot be told apart.
        InvalidRequest: a class is unknown or its name no plain text; the initialiser is none.
    """
    classes = _classes(create, dataset)
    if create.token_init != CLASS_NAME:
        _check_word(create.token_init, "/token_init", "initialiser")
    pictures = _pictures(classes, sources, create.limit)
    if not any(pictures.values()):
        raise DatasetEmpty(f"no class of {dataset.name!r} has a picture", pointer="/dataset")
    listed = {name: store.put(json.dumps(found).encode()) for name, found in pictures.items() if found}
    prompts = create.prompts or suite.editor.token_prompts
    preset = _preset(create, suite)
    config = DatasetInterfaceConfig(
        request=create,
        suite=suite.name,
        preset=preset,
        prompts=prompts,
        models=_models(suite),
        versions={"faultline": VERSION},
        dataset_digest=dataset.digest,
        classes=list(listed),
        pictures=listed,
        compared=_compared(create.seed, pictures) if prompts == "captions" else {},
        without_pictures=[name for name, found in pictures.items() if not found],
        link_steps=suite.editor.token_link_steps,
        generation=suite.editor.generation,
    )
    return config, _items(config, pictures)


def _classes(create: DatasetInterfaceCreate, dataset: Dataset) -> list[str]:
    wanted = list(dataset.classes) if create.classes is None else create.classes
    for index, name in enumerate(wanted):
        pointer = "/dataset" if create.classes is None else f"/classes/{index}"
        if name not in dataset.classes:
            raise InvalidRequest(f"dataset {dataset.name!r} has no class {name!r}", pointer=pointer)
        _check_word(name, pointer, "class name")
    if alike := twins(wanted):
        raise ClassMapMismatch(
            f"nobody can tell {alike[0]!r} from {alike[1]!r} of {dataset.name!r}", pointer="/dataset"
        )
    return wanted


def _check_word(text: str, pointer: str, field: str) -> None:
    try:
        refuse_slot(text)
        check_words(text, field=field, most=200)
    except InvalidRequest as error:
        error.pointer = pointer
        raise


def _pictures(classes: Sequence[str], sources: Sequence[Source], limit: int | None) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = {name: {} for name in classes}
    # By id and not by arrival: the same pictures make the same tokens however they came in.
    for source in sorted(sources, key=lambda source: source.id):
        if source.label in found:
            found[source.label][source.image] = None
    most = MAX_IMAGES if limit is None else min(limit, MAX_IMAGES)
    return {name: list(images)[:most] for name, images in found.items()}


def _preset(create: DatasetInterfaceCreate, suite: Suite) -> TextualInversionPreset:
    own = {"steps": create.steps, "vectors": create.vectors}
    # Read anew and not copied, so that what the request brings is checked as the suite's values are.
    chosen = {name: value for name, value in own.items() if value is not None}
    return TextualInversionPreset.model_validate(suite.editor.textual_inversion.model_dump() | chosen)


def _models(suite: Suite) -> dict[str, str]:
    return {
        "captioner": suite.captioner.model, "editor": suite.editor.model, "scorer": suite.scorer.clip,
    }  # fmt: skip


def _compared(seed: int, pictures: dict[str, list[str]]) -> dict[str, list[str]]:
    # Drawn by digest: of a thousand classes neither the first nor those with the most pictures.
    order = sorted(
        (name for name, found in pictures.items() if found), key=lambda name: derive_seed(seed, name)
    )
    return {name: pictures[name][:COMPARED_PICTURES] for name in order[:COMPARED_CLASSES]}


def _items(config: DatasetInterfaceConfig, pictures: dict[str, list[str]]) -> list[PlannedItem]:
    config_hash = cache_key(config=config.model_dump(mode="json"))
    return [
        PlannedItem(
            item_key=cache_key(token=name, config=config_hash),
            ordinal=ordinal,
            kind="token",
            source_id=f"classes-{ordinal // TOGETHER:05d}",
            source_image=pictures[name][0],
            label=name,
        )
        for ordinal, name in enumerate(config.classes)
    ]
