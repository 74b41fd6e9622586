"""A model version of MLflow's own registry through a gate of a gateway: `make test-trackers`."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from counterpose import Client, RetryPolicy, StressTest
from counterpose._registry_gate.receiver import Receiver
from counterpose._registry_gate.registry_gate import PAUSES_S, GateRequest, RegistryGate
from fakes.fault_proxy import fault_proxy
from fakes.served_gateway import ServedGateway

STORE, SECRET = os.environ["COUNTERPOSE_TEST_MLFLOW"], "a secret of the webhook"
mlflow: Any = importlib.import_module("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr("counterpose._registry_gate.registry_gate.PAUSES_S", (0.2,))
    assert PAUSES_S[0] > 1


def registered(client: Any, name: str, **tags: str) -> str:
    """A new version in the registry, of a logged model."""
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    experiment = client.get_experiment_by_name("Default").experiment_id
    logged = client.create_logged_model(experiment, name=name)
    made = client.create_model_version(
        name, f"models:/{logged.model_id}", model_id=logged.model_id, tags=tags
    )
    return str(made.version)


def gate_of(client: Client, run: StressTest, name: str, store: str = STORE) -> RegistryGate:
    """A gate that compares versions with the steady classifier on the run's pairs."""
    asked = GateRequest(baseline=run.id, classifier="leaning", incumbent="steady", tolerance=0.02)
    return RegistryGate(client, mlflow.MlflowClient(store), [name], asked, note=lambda _: None)


@contextmanager
def webhook(client: Any, address: str) -> Iterator[None]:
    """MLflow's webhook to an address."""
    made = client.create_webhook("gate", address, ["model_version.created"], secret=SECRET, status="ACTIVE")
    # MLflow's server keeps the list of webhooks for a second.
    time.sleep(1.2)
    try:
        yield
    finally:
        client.delete_webhook(made.webhook_id)


def awaited(told: Callable[[], dict[str, str]], wanted: set[str]) -> dict[str, str]:
    """The tags of a version, once its gate is one of these."""
    end = time.monotonic() + 60
    while (found := told()).get("counterpose.gate") not in wanted and time.monotonic() < end:
        time.sleep(0.05)
    assert found.get("counterpose.gate") in wanted
    return found


def test_a_registered_version_is_gated_and_tagged(served: ServedGateway, run: StressTest) -> None:
    client = mlflow.MlflowClient(STORE)
    with Client(served.address) as gateway, ExitStack() as stack:
        receiver = Receiver(gate_of(gateway, run, "pets"), SECRET.encode(), "127.0.0.1", 0, step_s=0.05)
        stack.callback(receiver.close)
        stack.enter_context(webhook(client, receiver.address))
        first = registered(client, "pets")
        second = registered(client, "pets", **{"counterpose.classifier": "steady"})

        def tags(version: str) -> dict[str, str]:
            return dict(client.get_model_version("pets", version).tags)

        for version in (first, second):
            awaited(lambda version=version: tags(version), {"running"})  # type: ignore[misc]  # a default
        served.work()
        failed = awaited(lambda: tags(first), {"failed", "passed", "inconclusive", "error"})
        same = awaited(lambda: tags(second), {"failed", "passed", "inconclusive", "error"})
        gate = gateway.gates.get(failed["counterpose.gate.run"])
        summary = gate.summary()
        assert failed["counterpose.gate"] == summary.outcome == "failed"
        assert failed["counterpose.gate.verdict"] == summary.verdict
        assert failed["counterpose.gate.report"] == gate.page
        assert failed["counterpose.gate.set"] == summary.config.regression_set.digest
        assert same["counterpose.gate"] in ("passed", "inconclusive")
        assert summary.config.request.classifiers == ["leaning"]


def test_mlflow_and_gateway_that_go_away_leave_one_gate(served: ServedGateway, run: StressTest) -> None:
    client = mlflow.MlflowClient(STORE)
    with Client(served.address) as gateway:
        before = {each.id for each in gateway.gates.list()}
    # Nobody listens: the delivery is lost.
    version = registered(client, "boats")
    with ExitStack() as stack:
        to_gateway = stack.enter_context(fault_proxy(served.port))
        to_store = stack.enter_context(fault_proxy(urlsplit(STORE).port or 0))
        address, store = (f"http://127.0.0.1:{each.port}" for each in (to_gateway, to_store))
        gateway = stack.enter_context(Client(address, retries=RetryPolicy(attempts=1)))
        gate = gate_of(gateway, run, "boats", store)
        with to_store.broken("down"):
            gate.catch_up()
            assert gate.waiting == 0
        gate.catch_up()
        assert gate.waiting == 1
        with to_gateway.broken("down"):
            gate.step()
        time.sleep(0.3)
        gate.step()
        served.work()
        with to_store.broken("down"):
            gate.step()
        # The program is killed, and started again.
        gate = gate_of(gateway, run, "boats")
        gate.catch_up()
        gate.step()
    told = client.get_model_version("boats", version).tags
    assert told["counterpose.gate"] == "failed"
    with Client(served.address) as gateway:
        assert {each.id for each in gateway.gates.list()} - before == {told["counterpose.gate.run"]}
