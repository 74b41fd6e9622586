"""Plan a dataset interface: one item per class, and one group for classes that learn together.

Which published token stands for which class of a dataset.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.dataset_interfaces import (
    CLASS_NAME,
    DatasetInterfaceConfig,
    DatasetInterfaceCreate,
)
from counterpose_core.contract.datasets import Dataset, Source
from counterpose_core.contract.runs import Run
from counterpose_core.contract.tokens import MAX_IMAGES, TextualInversionPreset
from counterpose_core.errors import ClassMapMismatch, DatasetEmpty, InvalidRequest
from counterpose_core.suite import Suite
from counterpose_core.text.class_prompts import refuse_slot
from counterpose_core.text.imagenet_hierarchy import class_key
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.text.plain_text import check_words
from counterpose_core.types import BlobRef
from counterpose_gateway.records.items import Plan, PlannedItem
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.large_plans import PlanInputs
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.runs.submission import named_dataset, require_quota, require_told_apart
from counterpose_gateway.version import VERSION

TOGETHER = 8
"""Classes that are learned in one batch."""
COMPARED_CLASSES = 16
COMPARED_IMAGES = 12
"""Number of classes, and of images of each, whose captions show which words are common to all classes."""


async def plan(create: DatasetInterfaceCreate, context: RunContext) -> Plan:
    """Plan a dataset interface on the dataset that the request names.

    Raises:
        QuotaExceeded: it would have more classes than a run may have items.
        UnknownDataset: the dataset does not exist.
        DatasetEmpty, ClassMapMismatch, InvalidRequest: see `plan_interface`.
    """
    return await asyncio.to_thread(_plan, create, context)


def _plan(create: DatasetInterfaceCreate, context: RunContext) -> Plan:
    dataset = named_dataset(create.dataset, "/dataset", context.ledger)
    require_quota(len(create.classes or dataset.classes), context, "/classes")
    sources = context.ledger.datasets.sources(create.dataset)
    config, items = plan_interface(
        create, dataset=dataset, sources=sources, suite=context.suite, store=context.store,
        holds=context.ledger.blobs.holds,
    )  # fmt: skip
    # The configuration lists the images of each class: the plan is made of no dataset again.
    return Plan(dataset.name, config, items, sources={})


def rest_of_plan(run: Run, inputs: PlanInputs, first: int) -> Iterator[PlannedItem]:
    """Plan the classes of a run again, from the ordinal ``first`` on; raises ArtifactMissing."""
    config = DatasetInterfaceConfig.model_validate(run.resolved_config)
    return _items(config, lambda name: str(json.loads(inputs.store.get(config.images[name]))[0]), first=first)


def plan_interface(
    create: DatasetInterfaceCreate,
    *,
    dataset: Dataset,
    sources: Sequence[Source],
    suite: Suite,
    store: BlobStore,
    holds: Callable[[BlobRef], bool] = lambda ref: True,
) -> tuple[DatasetInterfaceConfig, Iterator[PlannedItem]]:
    """Resolve the request and plan an item for each class that has images.

    Raises:
        DatasetEmpty: no requested class has an image.
        ClassMapMismatch: two class names look alike.
        InvalidRequest: a class is unknown, its name is not plain text, or the initialiser is invalid.
    """
    wanted = _classes(create, dataset)
    published = published_tokens(create, wanted, lambda ref: holds(ref) and store.exists(ref))
    classes = [name for name in wanted if create.tokens is None or name in published]
    if create.token_init != CLASS_NAME:
        _check_word(create.token_init, "/token_init", "initialiser")
    images = _images(classes, sources, create.limit)
    if not any(images.values()):
        raise DatasetEmpty(f"no class of {dataset.name!r} has an image; add images to it", pointer="/dataset")
    listed = {name: store.put(json.dumps(refs).encode()) for name, refs in images.items() if refs}
    prompts = "templates" if published else create.prompts or suite.editor.token_prompts
    preset = _preset(create, suite)
    config = DatasetInterfaceConfig(
        request=create,
        suite=suite.name,
        preset=preset,
        prompts=prompts,
        models=_models(suite),
        versions={"counterpose": VERSION},
        dataset_digest=dataset.digest,
        classes=list(listed),
        images=listed,
        compared=_compared(create.seed, images) if prompts == "captions" else {},
        without_images=[name for name, refs in images.items() if not refs],
        published={name: published[name] for name in listed if name in published},
        without_token=[name for name in wanted if name not in classes],
        link_steps=suite.editor.token_link_steps,
        generation=suite.editor.generation,
    )
    return config, _items(config, lambda name: images[name][0])


def _classes(create: DatasetInterfaceCreate, dataset: Dataset) -> list[str]:
    wanted = list(dataset.classes) if create.classes is None else create.classes
    for index, name in enumerate(wanted):
        pointer = "/dataset" if create.classes is None else f"/classes/{index}"
        if name not in dataset.classes:
            meant = did_you_mean(name, dataset.classes)
            raise InvalidRequest(f"dataset {dataset.name!r} has no class {name!r}{meant}", pointer=pointer)
        _check_word(name, pointer, "class name")
    require_told_apart(wanted, dataset.name)
    return wanted


def _check_word(text: str, pointer: str, field: str) -> None:
    try:
        refuse_slot(text)
        check_words(text, field=field, most=200)
    except InvalidRequest as error:
        error.pointer = pointer
        raise


def _images(classes: Sequence[str], sources: Sequence[Source], limit: int | None) -> dict[str, list[str]]:
    by_class: dict[str, dict[str, None]] = {name: {} for name in classes}
    # Sorted by id: the same images make the same tokens in whatever order they were uploaded.
    for source in sorted(sources, key=lambda source: source.id):
        if source.label in by_class:
            by_class[source.label][source.image] = None
    most = MAX_IMAGES if limit is None else min(limit, MAX_IMAGES)
    return {name: list(refs)[:most] for name, refs in by_class.items()}


def _preset(create: DatasetInterfaceCreate, suite: Suite) -> TextualInversionPreset:
    own = {"steps": create.steps, "vectors": create.vectors}
    # Validated again, not copied, so that the request's values are checked like the suite's.
    chosen = {name: value for name, value in own.items() if value is not None}
    return TextualInversionPreset.model_validate(suite.editor.textual_inversion.model_dump() | chosen)


def _models(suite: Suite) -> dict[str, str]:
    return {
        "captioner": suite.captioner.model, "editor": suite.editor.model, "scorer": suite.scorer.clip,
    }  # fmt: skip


def _compared(seed: int, images: dict[str, list[str]]) -> dict[str, list[str]]:
    # Drawn by digest, so that neither the first classes nor the largest are preferred.
    order = sorted((name for name, refs in images.items() if refs), key=lambda name: derive_seed(seed, name))
    return {name: images[name][:COMPARED_IMAGES] for name in order[:COMPARED_CLASSES]}


def _items(
    config: DatasetInterfaceConfig, example: Callable[[str], str], *, first: int = 0
) -> Iterator[PlannedItem]:
    config_hash = cache_key(config=config.model_dump(mode="json"))
    for ordinal, name in enumerate(config.classes[first:], start=first):
        yield PlannedItem(
            item_key=cache_key(token=name, config=config_hash),
            ordinal=ordinal,
            kind="token",
            item_group=f"classes-{ordinal // TOGETHER:05d}",
            source_image=example(name),
            label=name,
        )


def published_tokens(
    create: DatasetInterfaceCreate, classes: Sequence[str], is_there: Callable[[BlobRef], bool]
) -> dict[str, BlobRef]:
    """Return the file of each class's published token; classes that the request does not name may have none.

    ``is_there``: whether whoever asks has stored a file.

    Raises:
        InvalidRequest: a file is not in the store, a class that the request names has no token, or none has.
        ClassMapMismatch: two tokens are of the same class.
    """
    if create.tokens is None:
        return {}
    by_class = dict[str, str]()
    for name in create.tokens:
        other = by_class.setdefault(class_key(name), name)
        if other != name:
            raise ClassMapMismatch(
                f"the tokens {other!r} and {name!r} are of the same class; send one", pointer="/tokens"
            )
    found = {name: by_class[class_key(name)] for name in classes if class_key(name) in by_class}
    if not found or (create.classes is not None and len(found) < len(classes)):
        lacking = next(name for name in classes if name not in found)
        raise InvalidRequest(
            f"there is no token of {lacking!r}; there is one of {next(iter(create.tokens))!r}, for example",
            pointer="/tokens",
        )
    for name in found.values():
        if not is_there(create.tokens[name]):
            raise InvalidRequest(
                f"the token of {name!r} is not in the store; send its file to POST /v1/token-files",
                pointer=f"/tokens/{name}",
            )
    return {name: create.tokens[token] for name, token in found.items()}
