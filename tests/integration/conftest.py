"""One stack for all tests that need Ray: it takes a minute and both processors to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from counterpose._stack import Stack
from fakes import running_stack as started


@pytest.fixture(scope="session")
def running_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A running stack. Its tests leave it as it was: what they kill comes back before the next one."""
    with started.running_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running
