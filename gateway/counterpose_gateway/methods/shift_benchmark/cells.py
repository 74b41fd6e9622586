"""The cells of a shift benchmark (class, condition, image source), and the items of each: one per image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, cast, get_args

from counterpose_core.blobs import cache_key
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.editor import GenerationPreset
from counterpose_core.contract.shift_benchmarks import ImageSourceOrReal, ShiftBenchmarkConfig
from counterpose_core.errors import DatasetEmpty
from counterpose_core.types import BlobRef
from counterpose_gateway.methods.shift_benchmark.datasets import InputDatasets
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.steps.generation import images_per_call

GENERATED: tuple[ImageSourceOrReal, ...] = ("token", "class-name")
"""Image sources whose images the editor makes."""
CHOSEN: tuple[ImageSourceOrReal, ...] = ("scraped", "photographs", "real")
"""Image sources whose images are known when a run is planned: each item names its own."""

_SOURCES = "|".join(get_args(ImageSourceOrReal))
_SPELLED = re.compile(rf"s(\d{{4}})\.c(\d{{5}})\.({_SOURCES})\.(\d{{4}})")


@dataclass(frozen=True)
class Cell:
    """A condition and a class by their place in the run's configuration, an image source, and a chunk."""

    condition: int
    class_index: int
    image_source: ImageSourceOrReal
    chunk: int = 0

    @property
    def item_group(self) -> str:
        """The name of its group in the ledger: items of one cell and chunk are leased together."""
        return f"s{self.condition:04d}.c{self.class_index:05d}.{self.image_source}.{self.chunk:04d}"

    @classmethod
    def of(cls, item_group: str) -> Self:
        """Parse an `item_group`.

        Raises:
            ValueError: the id names no cell.
        """
        match = _SPELLED.fullmatch(item_group)
        if match is None:
            raise ValueError(f"{item_group!r} names no cell of a shift benchmark")
        condition, class_index, image_source, chunk = match.groups()
        return cls(int(condition), int(class_index), cast(ImageSourceOrReal, image_source), int(chunk))

    def condition_name(self, config: ShiftBenchmarkConfig) -> str:
        """The name of its condition."""
        return config.shifts[self.condition].name

    def class_name(self, config: ShiftBenchmarkConfig) -> str:
        """The name of its class."""
        return config.classes[self.class_index]


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
    config: ShiftBenchmarkConfig, shown: Mapping[str, BlobRef], inputs: InputDatasets, *, first: int = 0
) -> Iterator[PlannedItem]:
    """Plan every image from the ordinal ``first`` on; ``shown`` is an example of each class."""
    config_hash = cache_key(config=config.model_dump(mode="json", exclude={"groups"}))
    place = 0
    for cell, images in _cells(config, shown, inputs):
        size = _chunk(cell.image_source, config.generation)
        for slot in range(max(0, first - place), len(images)):
            chunk = Cell(cell.condition, cell.class_index, cell.image_source, slot // size)
            yield PlannedItem(
                item_key=cache_key(cell=cell.item_group, slot=slot, config=config_hash),
                ordinal=place + slot,
                kind="image",
                item_group=chunk.item_group,
                source_image=images[slot],
                label=cell.class_name(config),
                slot=slot,
            )
        place += len(images)


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
    return images_per_call(generation) if image_source in GENERATED else _MOST_FOUND
