"""A cache of values that take seconds to compute: it keeps the last few and computes each once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

V = TypeVar("V")


class RunCache:
    """The ``kept`` values that were used last, by threads and coroutines, with a lock for each key.

    A caller waits for a value that is being computed; values of other keys are computed meanwhile. Failures
    are not kept: the next caller computes the value again.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()
        # Weak: a lock lives as long as a caller computes or waits for its value.
        self._thread_locks: WeakValueDictionary[Hashable, _KeyLock] = WeakValueDictionary()
        self._task_locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def get(self, key: Hashable, compute: Callable[[], V]) -> V:
        """Return the value of ``key``, computed in this thread unless it is kept."""
        with self._lock:
            key_lock = self._thread_locks.setdefault(key, _KeyLock())
        with key_lock.lock:
            known, value = self._look_up(key)
            return value if known else self._keep(key, compute())

    async def get_async(self, key: Hashable, compute: Callable[[], Awaitable[V]]) -> V:
        """Return the value of ``key``, computed in this task unless it is kept."""
        # One event loop: there is no await between finding the lock and taking it.
        key_lock = self._task_locks.setdefault(key, asyncio.Lock())
        async with key_lock:
            known, value = self._look_up(key)
            return value if known else self._keep(key, await compute())

    def kept(self, key: Hashable) -> Any:
        """Return the value of ``key`` if it is kept, or None."""
        return self._look_up(key)[1]

    def clear(self) -> None:
        """Forget all values; what is being computed is kept after it."""
        with self._lock:
            self._values.clear()

    def _look_up(self, key: Hashable) -> tuple[bool, Any]:
        with self._lock:
            if key not in self._values:
                return False, None
            self._values.move_to_end(key)
            return True, self._values[key]

    def _keep(self, key: Hashable, value: V) -> V:
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._kept:
                self._values.popitem(last=False)
        return value


class _KeyLock:
    """A lock that supports weak references and is freed with its last holder."""

    def __init__(self) -> None:
        self.lock = Lock()
