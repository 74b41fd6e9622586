"""The items of a shift benchmark: one per image; a cell's items are leased in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from faultline_core.blobs import cache_key
from faultline_core.contract.datasets import Source
from faultline_core.contract.editor import GenerationPreset
from faultline_core.contract.shift_benchmarks import ImageSourceOrReal, ShiftBenchmarkConfig
from faultline_core.errors import DatasetEmpty
from faultline_core.types import BlobRef
from faultline_gateway.methods.shift_benchmark.cells import CHOSEN, GENERATED, Cell
from faultline_gateway.methods.shift_benchmark.datasets import InputDatasets
from faultline_gateway.runs.items import PlannedItem

_MOST_GENERATED = 16
_MOST_EVALUATIONS = 1200
"""Network evaluations in one call, about half a minute at 512 pixels: a call must not outlast a lease."""
_MOST_FOUND = 32


def examples(classes: Sequence[str], sources: Sequence[Source]) -> dict[str, BlobRef]:
    """A real image of each class, recorded for items that start from no image.

    Raises:
        DatasetEmpty: a class has no image.
    """
    # From the last to the first, so that the first of each class stays.
    by_class = {
        source.label: source.image for source in sorted(sources, key=lambda entry: entry.id, reverse=True)
    }
    without = [name for name in classes if name not in by_class]
    if without:
        raise DatasetEmpty(
            f"the interface's dataset has no image of the class {without[0]!r}", pointer="/interface"
        )
    return {name: by_class[name] for name in classes}


def plan_items(
    config: ShiftBenchmarkConfig, shown: Mapping[str, BlobRef], inputs: InputDatasets
) -> list[PlannedItem]:
    """Plan every image; ``shown`` is an example of each class."""
    config_hash = cache_key(config=config.model_dump(mode="json"))
    items: list[PlannedItem] = []
    for cell, images in _cells(config, shown, inputs):
        size = _chunk(cell.image_source, config.generation)
        for slot, image in enumerate(images):
            chunk = Cell(cell.condition, cell.class_index, cell.image_source, slot // size)
            items.append(
                PlannedItem(
                    item_key=cache_key(cell=cell.item_group, slot=slot, config=config_hash),
                    ordinal=len(items),
                    kind="image",
                    item_group=chunk.item_group,
                    source_image=image,
                    label=cell.class_name(config),
                    slot=slot,
                )
            )
    return items


def _cells(
    config: ShiftBenchmarkConfig, shown: Mapping[str, BlobRef], inputs: InputDatasets
) -> Iterator[tuple[Cell, list[BlobRef]]]:
    """Each cell and the image that each of its items names: the item's own where it is known."""
    create = config.request
    image_sources: list[ImageSourceOrReal] = ["real", *create.image_sources]
    # Real images first, then condition by condition: an interrupted run has complete conditions.
    order: list[tuple[int, list[ImageSourceOrReal]]] = [(0, image_sources[:1])]
    order += [(condition, image_sources[1:]) for condition in range(len(config.shifts))]
    for condition, wanted in order:
        shift = config.shifts[condition]
        for index, name in enumerate(config.classes):
            for image_source in wanted if shift.applies_to(name) else ():
                cell = Cell(condition, index, image_source)
                if image_source in CHOSEN:
                    yield cell, inputs.images(create, image_source, shift, name)
                else:
                    yield cell, [shown[name]] * create.n


def _chunk(image_source: ImageSourceOrReal, generation: GenerationPreset) -> int:
    if image_source not in GENERATED:
        return _MOST_FOUND
    # Guidance evaluates the network twice per step: with and without the prompt.
    return min(_MOST_GENERATED, max(1, _MOST_EVALUATIONS // (2 * generation.steps)))
