"""One line for each file of weights that a service reads while it starts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from counterpose_core.weights_reading import current_readings

LOOK_S = 1.0


@contextmanager
def telling(state: Path) -> Iterator[Callable[[], None]]:
    """Write these lines beside a start that blocks; yield what ends them, which the block's end does, too."""
    ended, told = threading.Event(), set[tuple[str, str]]()

    def tell() -> None:
        while not ended.wait(LOOK_S):
            for one in current_readings(state):
                if (one.service, one.file) not in told:
                    told.add((one.service, one.file))
                    sys.stdout.write(f"{one}\n")
                    sys.stdout.flush()

    thread = threading.Thread(target=tell, name="reading lines", daemon=True)

    def end() -> None:
        ended.set()
        thread.join()

    thread.start()
    try:
        yield end
    finally:
        end()
