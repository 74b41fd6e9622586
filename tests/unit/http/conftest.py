"""Captures log records without pytest's logging plugin, which the unit tests disable."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


class _Kept(logging.Handler):
    """Keeps every record."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def log_records() -> Iterator[list[logging.LogRecord]]:
    """The records that ``counterpose_http`` logs during a test."""
    logger, kept = logging.getLogger("counterpose_http"), _Kept()
    logger.addHandler(kept)
    yield kept.records
    logger.removeHandler(kept)
