"""A ledger of its own for each test that wants one, on a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.ledgers import Clock, new_ledger
from faultline_gateway.ledger import Ledger


@pytest.fixture
def clock() -> Clock:
    """Time that stands still until it is moved."""
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Iterator[Ledger]:
    """An empty ledger in a file."""
    ledger = new_ledger(tmp_path, clock)
    yield ledger
    ledger.close()
