"""The cells of a shift benchmark: class, condition and image source, in chunks that are leased together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self, cast, get_args

from faultline_core.contract.shift_benchmarks import ImageSourceOrReal, ShiftBenchmarkConfig

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
