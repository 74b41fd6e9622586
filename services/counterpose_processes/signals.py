"""Signals while processes are being started and stopped: every way out stops what was started."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)


def undisturbed() -> AbstractContextManager[None]:
    """Ignore further signals, which would leave running what is being stopped."""
    return _handling((signal.SIGINT, *ENDING), signal.SIG_IGN)


def ended_by_signals() -> AbstractContextManager[None]:
    """Run every ``finally`` when this process is terminated or its terminal is closed."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    return _handling(ENDING, leave)


@contextmanager
def _handling(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], object] | signal.Handlers
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
