"""The table of operations: what each is called, changes and keeps, and the numbers of its levels.

The table is data (`operations.toml`), so whoever lists or checks operations loads neither NumPy nor Pillow.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, get_args

from counterpose_core.errors import InvalidRequest
from counterpose_core.text.near_names import did_you_mean

Family = Literal["corruption", "camera", "optics", "geometry", "occlusion", "mark", "background"]
Other = Literal["any", "same-class", "other-class"]
"""Whose background an operation takes: any other photograph's, or one's of the same or of another class."""

FAMILIES: tuple[Family, ...] = get_args(Family)

LEVELS = 5

PUBLISHED_SIDE = 224
"""The longest side in pixels for which lengths are stated: the corruptions were published at this size."""

SMALLEST_SIDE = 8
"""Pixels of the shorter side from which operations on single pixels and the geometry make sense."""


@dataclass(frozen=True)
class Operation:
    """One operation and its levels; `application.apply` carries it out.

    ``title`` names it, and ``words`` say in a sentence about "the image" what it looks like at a level.
    ``changes`` and ``keeps`` are a line each of the documentation. ``numbers`` are the parameters of the
    levels, by name: one value a level, lengths in pixels where ``scales`` is set, for an image whose longest
    side has 224. ``constants`` are the same at every level. ``may_change`` names the labels that the
    operation may change at any level, and every label may change above ``label_levels``. ``other`` says which
    photograph gives its background, and ``placebo`` is the operation that cuts and pastes as it does and
    changes nothing that matters: what that costs is no effect of the background.
    """

    name: str
    family: Family
    title: str
    words: str
    changes: str
    keeps: str
    numbers: Mapping[str, tuple[float, ...]]
    constants: Mapping[str, float] = field(default_factory=dict)
    scales: bool = False
    is_random: bool = False
    needs_mask: bool = False
    other: Other | None = None
    placebo: str = ""
    smallest_side: int = SMALLEST_SIDE
    may_change: str = ""
    label_levels: int = LEVELS

    @property
    def levels(self) -> int:
        """How many levels there are: five, or one where there is no more or less, as of a flip."""
        return len(next(iter(self.numbers.values()))) if self.numbers else 1

    @property
    def needs_other(self) -> bool:
        """Whether it takes another photograph."""
        return self.other is not None

    def placebo_level(self, level: int) -> int:
        """The level of its placebo that replaces as much of the background: all, where it mixes no share."""
        return level if "share" in self.numbers else LEVELS

    def at(self, level: int) -> dict[str, float]:
        """Return the parameters of a level, by name.

        Raises:
            InvalidRequest: there is no such level.
        """
        if isinstance(level, bool) or level not in range(1, self.levels + 1):
            levels = f"levels 1 to {self.levels}" if self.levels > 1 else "level 1 only"
            raise InvalidRequest(f"{self.name!r} has no level {level!r}; it has {levels}")
        return {name: values[level - 1] for name, values in self.numbers.items()} | dict(self.constants)

    def in_words(self, level: int, *, scaled: bool = False) -> str:
        """Return what the image does or is at a level: "is as dark as level 3"; ``scaled`` as of `called`."""
        return self._named(self.words.format(level=level, **self.at(level)), scaled)

    def called(self, *, scaled: bool) -> str:
        """Return the title: of a corruption whose lengths are ``scaled`` to another size, one that says so.

        Its levels are not the published ones then: "Gaussian blur (scaled)".
        """
        return self._named(self.title, scaled)

    def _named(self, words: str, scaled: bool) -> str:
        return f"{words} (scaled)" if scaled and self.scales and self.family == "corruption" else words


def operation(name: str) -> Operation:
    """Return the operation of this name.

    Raises:
        InvalidRequest: there is none.
    """
    if name not in OPERATIONS:
        names = ", ".join(OPERATIONS)
        raise InvalidRequest(
            f"no operation is named {name!r}{did_you_mean(name, OPERATIONS)}; choose of {names}"
        )
    return OPERATIONS[name]


def _operation(family: Family, name: str, row: dict[str, Any]) -> Operation:
    numbers = row.pop("numbers", {})
    levels = {key: tuple(values) for key, values in numbers.items() if isinstance(values, list)}
    constants = {key: value for key, value in numbers.items() if key not in levels}
    return Operation(
        name, family, numbers=MappingProxyType(levels), constants=MappingProxyType(constants), **row
    )


def _table() -> Mapping[str, Operation]:
    text = (resources.files(__package__) / "operations.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    rows = ((family, name, row) for family in FAMILIES for name, row in table[family].items())
    return MappingProxyType({name: _operation(family, name, row) for family, name, row in rows})


OPERATIONS: Mapping[str, Operation] = _table()
"""Every operation by its name, family after family."""
