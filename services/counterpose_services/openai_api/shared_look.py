"""A look at a server before the first question, which all callers of a replica share."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

SHARED_FAILURE_S = 5.0
"""So long after a failed look callers fail by it: each look at a server that is down takes all its tries."""

Seen = TypeVar("Seen")


class SharedLook(Generic[Seen]):
    """Has one caller look; those that come meanwhile, or soon after a failure, share what came of it."""

    def __init__(self, see: Callable[[], Seen]) -> None:
        self._see = see
        self._look, self._looking = Future[Seen](), threading.Lock()
        self._look_again = 0.0

    def __call__(self) -> Seen:
        """Return what was seen, or raise the error of the look."""
        with self._looking:
            look, is_ours = self._look, time.monotonic() >= self._look_again
            if is_ours:
                # Nobody else looks until this one has ended.
                look = self._look = Future[Seen]()
                self._look_again = math.inf
        if is_ours:
            try:
                look.set_result(self._see())
            except BaseException as error:
                self._look_again = time.monotonic() + SHARED_FAILURE_S
                look.set_exception(error)
        return look.result()
