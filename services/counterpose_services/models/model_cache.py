"""A memory cache of models, limited in bytes; reference counts keep models that are in use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

Model = TypeVar("Model")


@dataclass(frozen=True)
class Loaded(Generic[Model]):
    """A model and its memory."""

    model: Model
    size_bytes: int


@dataclass
class _Entry(Generic[Model]):
    loaded: Loaded[Model]
    users: int = 0


class ModelCache(Generic[Model]):
    """Keeps up to ``budget_bytes`` of models; beyond that, the least recently used idle ones are dropped.

    A model in use is never dropped, so several models in use together may exceed the budget. Neither is one
    that is alone, or a model larger than the budget would be loaded anew for every call.
    """

    def __init__(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._entries: OrderedDict[str, _Entry[Model]] = OrderedDict()
        self._loads = 0
        # Guards _entries and their counts. Also held during loading, so that no model is loaded twice.
        self._lock = threading.RLock()

    @contextmanager
    def borrow(self, key: str, load: Callable[[], Loaded[Model]]) -> Iterator[Model]:
        """Lend the model ``key``; load it if necessary."""
        with self._lock:
            if key not in self._entries:
                # Dropped first: two models larger than the budget may not fit beside each other.
                self._shrink(all_idle=True)
                # `load` runs before the entry exists, so a model that fails to load leaves no entry.
                self._entries[key] = _Entry(load())
                self._loads += 1
            entry = self._entries[key]
            entry.users += 1
            self._entries.move_to_end(key)
            self._shrink()
        try:
            yield entry.loaded.model
        finally:
            with self._lock:
                entry.users -= 1
                self._shrink()

    def holds(self, key: str) -> bool:
        """Return True if the model ``key`` is loaded; never waits for a load."""
        # Read without the lock, which a thread that loads a model holds for seconds.
        return key in self._entries

    @property
    def loads(self) -> int:
        """How often a model was loaded."""
        return self._loads

    @property
    def keys(self) -> list[str]:
        """The keys of the loaded models, least recently used first."""
        with self._lock:
            return list(self._entries)

    @property
    def size_bytes(self) -> int:
        """Memory of all loaded models."""
        with self._lock:
            return sum(entry.loaded.size_bytes for entry in self._entries.values())

    def _shrink(self, *, all_idle: bool = False) -> None:
        """Drop idle models until the rest is within the budget; the last one only with ``all_idle``."""
        for key in list(self._entries):
            if self.size_bytes <= self._budget or (len(self._entries) == 1 and not all_idle):
                return
            if self._entries[key].users == 0:
                del self._entries[key]
