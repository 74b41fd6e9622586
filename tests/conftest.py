"""Settings of every test: a gate must not fail by chance, by a slow machine, or by another processor."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from golden import golden as golden
from golden import pytest_itemcollected as pytest_itemcollected
from parts import Parts
from without_linux import WithoutLinux

settings.register_profile("gate", derandomize=True, deadline=None)
settings.load_profile("gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options that imitate other processors' rounding, and those of the parts of ``make test``."""
    parser.addoption("--part", metavar="K/N", help="run one of N parts of the files, which take equally long")
    parser.addoption(
        "--store-durations", type=Path, metavar="FILE", help="add each test file's seconds to FILE"
    )
    parser.addoption(
        "--perturb-networks",
        type=float,
        default=0.0,
        metavar="SCALE",
        help="add noise of this relative size, 1e-6 say, to the outputs of PyTorch networks at every call",
    )
    parser.addoption(
        "--without-linux", action="store_true", help="run as on macOS, without what only Linux has"
    )
    parser.addoption("--perturb-seed", type=int, default=0, metavar="SEED", help="draw other noise")


def pytest_configure(config: pytest.Config) -> None:
    """Choose files of all folders: a conftest's own hooks see only those beside it."""
    config.pluginmanager.register(Parts(config.getoption("--part"), config.getoption("--store-durations")))
    if config.getoption("--without-linux"):
        config.pluginmanager.register(WithoutLinux())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of what only Linux has where it is missing."""
    elsewhere = sys.platform != "linux" or item.config.getoption("--without-linux")
    if elsewhere and item.get_closest_marker("linux"):
        pytest.skip("only Linux has it")


@pytest.fixture(scope="session", autouse=True)
def _perturbed_networks(request: pytest.FixtureRequest) -> Iterator[None]:
    scale: float = request.config.getoption("--perturb-networks")
    if not scale:
        yield
        return
    # Imported only on request: PyTorch takes seconds, and most unit tests do not need it.
    from fakes.perturbed_networks import perturbed_networks

    with perturbed_networks(scale, request.config.getoption("--perturb-seed")):
        yield
