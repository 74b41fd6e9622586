"""The items of a shift benchmark: one a picture, those of a cell in chunks that are leased together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from faultline_core.blobs import cache_key
from faultline_core.contract.datasets import Source
from faultline_core.contract.editor import GenerationPreset
from faultline_core.contract.shift_benchmarks import PictureSource, ShiftBenchmarkConfig
from faultline_core.errors import DatasetEmpty
from faultline_core.types import BlobRef
from faultline_gateway.work_items import PlannedItem
from faultline_gateway.workflows.benchmark_cells import CHOSEN, GENERATED, Cell
from faultline_gateway.workflows.brought_pictures import BroughtPictures

_MOST_GENERATED = 16
_MOST_EVALUATIONS = 1200
"""Of the network in one call, about half a minute at 512 pixels: a call must not outlast a lease."""
_MOST_FOUND = 32


def examples(classes: Sequence[str], sources: Sequence[Source]) -> dict[str, BlobRef]:
    """A real picture of each class, which stands for an item that is made from none.

    Raises:
        DatasetEmpty: a class has no picture.
    """
    # From the last to the first, so that the first of each class stays.
    found = {source.label: source.image for source in sorted(sources, key=lambda each: each.id, reverse=True)}
    without = [name for name in classes if name not in found]
    if without:
        raise DatasetEmpty(
            f"the interface's dataset has no picture of the class {without[0]!r}", pointer="/interface"
        )
    return {name: found[name] for name in classes}


def plan_items(
    config: ShiftBenchmarkConfig, shown: Mapping[str, BlobRef], brought: BroughtPictures
) -> list[PlannedItem]:
    """Plan every picture; ``shown`` is an example of each class."""
    config_hash = cache_key(config=config.model_dump(mode="json"))
    items: list[PlannedItem] = []
    for cell, pictures in _cells(config, shown, brought):
        size = _chunk(cell.source, config.generation)
        for slot, image in enumerate(pictures):
            chunk = Cell(cell.condition, cell.class_index, cell.source, slot // size)
            items.append(
                PlannedItem(
                    item_key=cache_key(cell=cell.source_id, slot=slot, config=config_hash),
                    ordinal=len(items),
                    kind="picture",
                    source_id=chunk.source_id,
                    source_image=image,
                    label=cell.class_name(config),
                    slot=slot,
                )
            )
    return items


def _cells(
    config: ShiftBenchmarkConfig, shown: Mapping[str, BlobRef], brought: BroughtPictures
) -> Iterator[tuple[Cell, list[BlobRef]]]:
    """Each cell and the picture that each of its items names: its own where it is known."""
    create = config.request
    sources: list[PictureSource] = ["real", *create.sources]
    # Real pictures first, and then condition by condition: what is cut short is whole as far as it goes.
    order: list[tuple[int, list[PictureSource]]] = [(0, sources[:1])]
    order += [(condition, sources[1:]) for condition in range(len(config.shifts))]
    for condition, wanted in order:
        shift = config.shifts[condition]
        for index, name in enumerate(config.classes):
            for source in wanted if shift.applies_to(name) else ():
                if source in CHOSEN:
                    yield Cell(condition, index, source), brought.pictures(create, source, shift, name)
                else:
                    yield Cell(condition, index, source), [shown[name]] * create.n


def _chunk(source: PictureSource, generation: GenerationPreset) -> int:
    if source not in GENERATED:
        return _MOST_FOUND
    # Guidance asks the network twice a step: with the prompt and without.
    return min(_MOST_GENERATED, max(1, _MOST_EVALUATIONS // (2 * generation.steps)))
