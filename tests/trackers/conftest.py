"""A gateway with ended runs, and the trackers' packages, last on the path."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from counterpose import Client, StressTest
from fakes.served_gateway import ServedGateway, served_gateway

BODY: dict[str, Any] = {"classifiers": ["steady", "leaning"], "edit_types": ["background"], "seed": 3}
if "COUNTERPOSE_TEST_MLFLOW" not in os.environ:
    pytest.skip("there is no MLflow server: make test-trackers starts one", allow_module_level=True)
# Last on the path: what both environments have is ours.
sys.path.append(os.environ["COUNTERPOSE_TEST_TRACKERS_PACKAGES"])


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGateway]:
    """A gateway with a small dataset."""
    with served_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        opened.call(opened.gateway.upload("demo", 12, ("sled", "boat")))
        yield opened


@pytest.fixture(scope="session")
def run(served: ServedGateway) -> Iterator[StressTest]:
    """An ended stress test of one stage, which has insights."""
    with Client(served.address) as client:
        made = client.stress_tests.create(dataset="demo", confirm=False, **BODY)
        served.work()
        yield made.wait()
