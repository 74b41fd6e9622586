"""One line for each file of weights that a service reads while it starts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from counterpose_core.weights_reading import WeightsReading, current_readings

LOOK_S = 1.0


class ReadingLines:
    """Writes a line to standard output when the reading of a file begins."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._told: set[tuple[str, str]] = set()

    def tell(self) -> list[WeightsReading]:
        """Look once; return what is read now."""
        found = current_readings(self._state)
        for one in found:
            if (one.service, one.file) not in self._told:
                self._told.add((one.service, one.file))
                sys.stdout.write(f"{one}\n")
                sys.stdout.flush()
        return found


@contextmanager
def telling(state: Path) -> Iterator[Callable[[], None]]:
    """Write these lines beside a start that blocks; yield what ends them, which the block's end does, too."""
    ended, lines = threading.Event(), ReadingLines(state)

    def tell() -> None:
        while not ended.wait(LOOK_S):
            lines.tell()

    thread = threading.Thread(target=tell, name="reading lines", daemon=True)

    def end() -> None:
        ended.set()
        thread.join()

    thread.start()
    try:
        yield end
    finally:
        end()
