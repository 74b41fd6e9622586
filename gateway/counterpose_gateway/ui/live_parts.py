"""The changing part of a run's page, made once for all who have the page open."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from counterpose_gateway.progress.following import LOOK_SECONDS
from counterpose_gateway.ui.live_figures import LEAST_AGE_SECONDS

_KEPT = 32


@dataclass(frozen=True)
class _Part:
    html: str
    tag: str
    made_at: float

    def is_fresh(self, tag: str) -> bool:
        # Of an unchanged run the figures alone may be newer, which are summed up again after a while.
        age = time.monotonic() - self.made_at
        return age < (LEAST_AGE_SECONDS if tag == self.tag else LOOK_SECONDS)


class LiveParts:
    """The last part that was made for each run that someone watches."""

    def __init__(self) -> None:
        self._parts: OrderedDict[str, _Part] = OrderedDict()
        self._making: dict[str, asyncio.Task[str]] = {}

    async def of(self, run_id: str, tag: str, make: Callable[[], str]) -> str:
        """Return the part of a run: the last one while it is fresh or the next one is being made.

        Args:
            run_id: the run.
            tag: the ETag of its status, which tells whether it has changed.
            make: makes the part, in a thread.
        """
        known = self._parts.get(run_id)
        if known is not None and (known.is_fresh(tag) or run_id in self._making):
            return known.html
        if run_id not in self._making:
            self._making[run_id] = asyncio.create_task(self._make(run_id, tag, make))
        # Whoever leaves must not take it from the others.
        return await asyncio.shield(self._making[run_id])

    async def _make(self, run_id: str, tag: str, make: Callable[[], str]) -> str:
        try:
            html = await asyncio.to_thread(make)
            self._parts.pop(run_id, None)
            self._parts[run_id] = _Part(html, tag, time.monotonic())
            if len(self._parts) > _KEPT:
                self._parts.popitem(last=False)
            return html
        finally:
            del self._making[run_id]
