"""Settings of every test: a gate must not fail by chance, by a slow machine, or by another processor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from golden import golden as golden
from golden import pytest_itemcollected as pytest_itemcollected

settings.register_profile("gate", derandomize=True, deadline=None)
settings.load_profile("gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options that imitate other processors' rounding."""
    parser.addoption(
        "--perturb-networks",
        type=float,
        default=0.0,
        metavar="SCALE",
        help="add noise of this relative size, 1e-6 say, to the outputs of PyTorch networks at every call",
    )
    parser.addoption("--perturb-seed", type=int, default=0, metavar="SEED", help="draw other noise")


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
