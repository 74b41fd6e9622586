"""How often what runs enters another file of the product: its stays.

A *stay* is a call from one file into another, counted once for each line that calls and each function that it
calls: whoever reads goes there once, however often a loop does. What a test's fake calls is not counted, nor
what the event loop goes on with, or a pool's thread begins with.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = tuple(ROOT / part for part in ("clients", "gateway", "services"))
APART = (ROOT / "tests", ROOT / "evaluation")
Calls = dict[CodeType, set[tuple[CodeType, int]]]
"""The functions that are called, each with the lines of other files that call it."""


class Walk:
    """Counts the stays of what runs within ``with walk.counting():``, in threads that start later, too.

    Of several blocks, the one with the most stays is kept.

    Args:
        product: the folders of the files that are counted.
        apart: the folders of fakes, whose own calls are not.
    """

    def __init__(self, product: tuple[Path, ...] = PRODUCT, apart: tuple[Path, ...] = APART) -> None:
        self._is_counting = False
        self._calls: Calls = {}
        self.into = Counter[str]()
        self.files = 0
        self._inside = cache(lambda name: any(Path(name).is_relative_to(each) for each in product))
        self._apart = cache(lambda name: any(Path(name).is_relative_to(each) for each in apart))
        threading.setprofile(self._look)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count during the block."""
        self._is_counting, self._calls = True, {}
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._is_counting = False
        into = Counter(code.co_filename for code, callers in self._calls.items() for _ in callers)
        if into.total() >= self.stays:
            # By their files, and the files that the block began in.
            self.into, self.files = into, len({code.co_filename for code in self._calls})

    @property
    def stays(self) -> int:
        """How often another file is entered."""
        return self.into.total()

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        code, caller = frame.f_code, frame.f_back
        # A module or a class that is made is a definition, and no call.
        if not self._is_counting or event != "call" or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        if not self._inside(code.co_filename):
            return
        callers = self._calls.setdefault(code, set())
        while caller is not None and not self._inside(caller.f_code.co_filename):
            if self._apart(caller.f_code.co_filename):
                return
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            callers.add((caller.f_code, caller.f_lineno))
