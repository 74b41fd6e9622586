"""What a logger says: unit tests run without pytest's own log handlers, which cost more than the tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class LogListener(logging.Handler):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Add a message."""
        self.said += record.getMessage()


@contextmanager
def listening(name: str) -> Iterator[LogListener]:
    """Listen to the logger of this name during the block."""
    listener, logger = LogListener(), logging.getLogger(name)
    logger.addHandler(listener)
    try:
        yield listener
    finally:
        logger.removeHandler(listener)
