"""Answers end with their key: a stream, a wait or a download may last longer than the key that asked."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from counterpose_core.errors import CounterposeError, Unauthorized
from counterpose_gateway.access.key_ring import OF_SETTINGS, Holder, KeyRing

WATCH_SECONDS = 1.5
"""Between two looks at a key that has open requests; with what the ring remembers, less than five."""


class KeyWatch:
    """Looks at each key that has open requests, and ends them when it is no longer valid."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring
        self._open: dict[str, set[asyncio.Task[Any]]] = defaultdict(set)
        self._ended = set[asyncio.Task[Any]]()
        self._watchers: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def watched(self, holder: Holder | None) -> AsyncIterator[None]:
        """End the block when the holder's key ends.

        Raises:
            Unauthorized: it did.
        """
        task = asyncio.current_task()
        if task is None or holder is None or holder.key_id == OF_SETTINGS:
            yield
            return
        self._open[holder.key_id].add(task)
        if holder.key_id not in self._watchers:
            self._watchers[holder.key_id] = asyncio.create_task(self._watch(holder.key_id))
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            raise Unauthorized(f"the API key {holder.key_id} ended before the answer did") from None
        finally:
            self._open[holder.key_id].discard(task)
            if task in self._ended:
                self._ended.discard(task)
                task.uncancel()

    async def _has_ended(self, key_id: str) -> bool:
        try:
            return await self._ring.holder_of_id(key_id) is None
        except CounterposeError:
            # A ledger that cannot be asked ends nobody's stream.
            return False

    async def _watch(self, key_id: str) -> None:
        try:
            while True:
                await asyncio.sleep(WATCH_SECONDS)
                if not self._open[key_id]:
                    return
                if await self._has_ended(key_id):
                    for task in self._open[key_id] - self._ended:
                        self._ended.add(task)
                        task.cancel()
        finally:
            del self._watchers[key_id]
            if not self._open[key_id]:
                del self._open[key_id]
