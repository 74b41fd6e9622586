"""How often what runs enters another file of the product: its stays.

A *stay* is a function's way into another file, counted once for each function that calls and each file that
it calls into: whoever reads it goes there once, however often a loop does. What a test's fake calls is not
counted, nor what the event loop goes on with, or a pool's thread begins with.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = tuple(ROOT / part for part in ("clients", "gateway", "services"))
APART = (ROOT / "tests", ROOT / "evaluation")


class Walk:
    """Counts the stays of what runs within ``with walk.counting():``, in threads that start later, too.

    Of several blocks, the one with the most stays is kept.

    ``callers``: for each file that is entered, or that the block begins in, the functions that enter it.

    Args:
        product: the folders of the files that are counted.
        apart: the folders of fakes, whose own calls are not.
    """

    def __init__(self, product: tuple[Path, ...] = PRODUCT, apart: tuple[Path, ...] = APART) -> None:
        self._is_counting = False
        self._callers: dict[str, set[CodeType]] = {}
        self.callers: Mapping[str, Collection[CodeType]] = {}
        self._inside = cache(lambda name: any(Path(name).is_relative_to(each) for each in product))
        self._apart = cache(lambda name: any(Path(name).is_relative_to(each) for each in apart))
        threading.setprofile(self._look)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count during the block."""
        self._is_counting, self._callers = True, {}
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._is_counting = False
        if sum(map(len, self._callers.values())) >= self.stays:
            self.callers = self._callers

    @property
    def stays(self) -> int:
        """How often another file is entered."""
        return sum(map(len, self.callers.values()))

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        code, caller = frame.f_code, frame.f_back
        # A module or a class that is made is a definition, and no call.
        if not self._is_counting or event != "call" or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        if not self._inside(code.co_filename):
            return
        callers = self._callers.setdefault(code.co_filename, set())
        while caller is not None and not self._inside(caller.f_code.co_filename):
            if self._apart(caller.f_code.co_filename):
                return
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            callers.add(caller.f_code)
