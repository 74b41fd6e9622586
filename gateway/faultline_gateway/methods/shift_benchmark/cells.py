"""The cells of a shift benchmark: a class under a condition from one source, in chunks leased together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self, cast, get_args

from faultline_core.contract.shift_benchmarks import ImageSource, ShiftBenchmarkConfig

GENERATED: tuple[ImageSource, ...] = ("token", "class-name")
"""Sources whose images the editor makes."""
CHOSEN: tuple[ImageSource, ...] = ("scraped", "photographs", "real")
"""Sources whose images are known when a run is planned: each item names its own."""

_SOURCES = "|".join(get_args(ImageSource))
_SPELLED = re.compile(rf"s(\d{{4}})\.c(\d{{5}})\.({_SOURCES})\.(\d{{4}})")


@dataclass(frozen=True)
class Cell:
    """Places of a condition and a class in the run's configuration, a source, and a chunk of its images."""

    condition: int
    class_index: int
    source: ImageSource
    chunk: int = 0

    @property
    def item_group(self) -> str:
        """The name of its group in the ledger: items of one cell and chunk are leased together."""
        return f"s{self.condition:04d}.c{self.class_index:05d}.{self.source}.{self.chunk:04d}"

    @classmethod
    def of(cls, item_group: str) -> Self:
        """Parse an `item_group`.

        Raises:
            ValueError: the id names no cell.
        """
        match = _SPELLED.fullmatch(item_group)
        if match is None:
            raise ValueError(f"{item_group!r} names no cell of a shift benchmark")
        condition, class_index, source, chunk = match.groups()
        return cls(int(condition), int(class_index), cast(ImageSource, source), int(chunk))

    def condition_name(self, config: ShiftBenchmarkConfig) -> str:
        """The name of its condition."""
        return config.shifts[self.condition].name

    def class_name(self, config: ShiftBenchmarkConfig) -> str:
        """The name of its class."""
        return config.classes[self.class_index]
