"""What the fault tests measure, which ``--record`` keeps for the page of evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from evaluation.evidence.lost_work import Kill, keep

Measured = Callable[[Kill], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a session keep what it measures."""
    parser.addoption("--record", action="store_true", help="write evaluation/results/lost-work.json")


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Take down what a kill cost."""
    kills: list[Kill] = []
    yield kills.append
    if request.config.getoption("--record"):
        keep(kills)
