"""Unit tests reach neither the network nor Ray: an audit hook refuses both while one runs."""

from __future__ import annotations

import gc
import ipaddress
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

RAY_PROGRAMS = ("gcs_server", "raylet")
# Seconds of import each: what loads or serves models is tested in tests/integration.
HEAVY_LIBRARIES = ("transformers", "timm", "open_clip", "peft", "ray")


class Refused(AssertionError):
    """A unit test tried what only integration tests may do."""


class Guard:
    """Refuses connections beyond loopback and the start of a Ray cluster while ``closed``."""

    closed = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.closed:
            return
        if event == "socket.connect" and not _is_local(arguments[1]):
            raise Refused(f"a unit test connects to {arguments[1]!r}")
        if event == "subprocess.Popen" and any(name in str(arguments[:2]) for name in RAY_PROGRAMS):
            raise Refused("a unit test starts Ray")


def _is_local(address: object) -> bool:
    if not isinstance(address, tuple):
        return True
    try:
        return ipaddress.ip_address(str(address[0])).is_loopback
    except ValueError:
        return str(address[0]) == "localhost"


GUARD = Guard()
# Audit hooks cannot be taken off again: one for the process, switched for each test.
sys.addaudithook(GUARD)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector skip the model libraries: what they import lives until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a suite of which some file imports a library that loads or serves models."""
    loaded = [name for name in HEAVY_LIBRARIES if name in sys.modules]
    units = all("unit" in item.path.parts for item in session.items)
    if loaded and units:
        raise pytest.UsageError(f"unit tests import {', '.join(loaded)}: such tests belong to integration")


@pytest.fixture(autouse=True)
def no_network_and_no_ray() -> Iterator[None]:
    GUARD.closed = True
    yield
    GUARD.closed = False
