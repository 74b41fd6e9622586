"""Work that takes long for many images alone: in a thread for those, at once for a few."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

FEW = 200
"""So many images take a millisecond; a change of threads takes as long when many callers wait."""


async def off_loop(items: Sized, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what ``work`` returns; nobody waits meanwhile for work on many ``items``."""
    if len(items) <= FEW:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
