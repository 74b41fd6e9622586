"""Strings as numbers, each kept once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

NONE = -1
"""The code of a missing string."""


class Codes:
    """Distinct strings in the order in which they first occur; a string's code is its place."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names: list[str] = list(names)
        self._codes = {name: code for code, name in enumerate(self.names)}

    def add(self, name: str | None) -> int:
        """Return the code of a string, a new one if it is new."""
        if name is None:
            return NONE
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self.names)
            self.names.append(name)
        return code

    def find(self, name: str) -> int:
        """Return the code of a string, or one that no item has."""
        return self._codes.get(name, NONE - 1)


class Ids(Sequence[str]):
    """The ids of a run's items: as a ledger makes them, run and place, they take no memory."""

    def __init__(self) -> None:
        self._run: str | None = None
        self._length = 0
        self._others: dict[int, str] = {}

    def extend(self, run: str, length: int, others: Mapping[int, str]) -> None:
        """Add ``length`` ids as a ledger makes them, but for ``others``, by their place among them."""
        if self._run is None:
            self._run = run
        first = self._length
        self._length += length
        if run != self._run:
            named = (f"{run}.{at}" for at in range(first, self._length))
            self._others.update(zip(range(first, self._length), named, strict=True))
        self._others.update((first + place, name) for place, name in others.items())

    def find(self, name: str) -> int | None:
        """Return the place of an id, or None."""
        run, _, place = name.rpartition(".")
        if run == self._run and place.isdecimal():
            at = int(place)
            return at if at < self._length and at not in self._others else self._other(name)
        return self._other(name)

    def _other(self, name: str) -> int | None:
        return next((at for at, other in self._others.items() if other == name), None)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> list[str]: ...

    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(self._length))]
        if not 0 <= at < self._length:
            raise IndexError(at)
        return self._others.get(at) or f"{self._run}.{at}"
