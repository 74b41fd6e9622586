"""The indices of pictures that a process keeps: each is made once, however many ask for it at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from faultline_core.picture_index import PictureIndex
from faultline_core.types import Cost

KEPT = 4
"""Indices in memory: of a million pictures by 1,024 numbers each takes 4 GB, of ten thousand 40 MB."""


class KeptIndex:
    """An index and what making it took, which is paid for once."""

    def __init__(self, index: PictureIndex, cost: Cost) -> None:
        self.index = index
        self._cost = cost

    def claim_cost(self) -> Cost:
        """Return what making it took to the first who asks, and nothing to the others."""
        cost, self._cost = self._cost, Cost()
        return cost


class Indices:
    """The ``kept`` indices used last; one that is left takes another look into the store."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._found: OrderedDict[str, KeptIndex] = OrderedDict()
        # Held while an index is made, so that the hands of a worker do not all embed one folder.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def of(self, key: str, make: Callable[[str], Awaitable[tuple[PictureIndex, Cost]]]) -> KeptIndex:
        """Return the index of ``key``, made by ``make`` if it is not kept; what fails is not kept."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            if key not in self._found:
                self._found[key] = KeptIndex(*await make(key))
            self._found.move_to_end(key)
            made = self._found[key]
            while len(self._found) > self._kept:
                self._found.popitem(last=False)
        return made
