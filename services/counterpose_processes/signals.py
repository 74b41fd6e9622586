"""Signals while processes are being started and stopped: every way out stops what was started."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)

_Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore further signals, which would leave running what is being stopped."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, *ENDING)}
    try:
        yield
    finally:
        _restore(before)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Run every ``finally`` when this process is terminated or its terminal is closed."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in ENDING}
    try:
        yield
    finally:
        _restore(before)


def _restore(before: Mapping[signal.Signals, _Handler]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
