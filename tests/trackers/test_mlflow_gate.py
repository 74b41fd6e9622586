"""Model versions of MLflow's own registry through gates of a gateway by the example: `make test-trackers`."""

from __future__ import annotations

import base64
import hmac
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from counterpose import Client, StressTest
from fakes.fault_proxy import fault_proxy
from fakes.served_gateway import ServedGateway

STORE, SECRET = os.environ["COUNTERPOSE_TEST_MLFLOW"], "a secret of the webhook"
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "integrations/mlflow/registry_gate.py"
# The trackers' packages come last on the path, as in this process.
START = """import os, runpy, sys
sys.path.append(os.environ["COUNTERPOSE_TEST_TRACKERS_PACKAGES"])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
ENDED = {"failed", "passed", "inconclusive", "error"}
mlflow: Any = importlib.import_module("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def baseline(served: ServedGateway, run: StressTest, tmp_path: Path) -> Path:
    """The frozen counterfactuals of the run."""
    file = tmp_path / "set.json"
    with Client(served.address) as gateway:
        file.write_text(gateway.gates.freeze(run.id).model_dump_json(), encoding="utf-8")
    return file


@contextmanager
def example(
    model: str,
    baseline: Path,
    gateway: str,
    store: str = STORE,
    *,
    every: float = 0.2,
    tolerance: float = 0.02,
) -> Iterator[str]:
    """Run the example as a process, which is killed in the end; give the address that it listens on."""
    secret = baseline.with_name("secret")
    secret.write_text(f"{SECRET}\n", encoding="utf-8")
    command = [
        sys.executable, "-c", START, str(EXAMPLE), "--model", model, "--baseline", str(baseline),
        "--classifier", "leaning", "--incumbent", "steady", "--tolerance", str(tolerance),
        "--alias", "champion", "--secret-file", str(secret), "--port", "0", "--every", str(every),
    ]  # fmt: skip
    settings = {
        "MLFLOW_TRACKING_URI": store,
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "COUNTERPOSE_URL": gateway,
        "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("clients", "services")),
    }
    with subprocess.Popen(command, env=os.environ | settings, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stderr is not None
            for line in program.stderr:
                if line.startswith("listening on "):
                    break
            yield line.split()[-1]
        finally:
            program.kill()


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


def awaited(tags_of: Callable[[], dict[str, str]], wanted: set[str]) -> dict[str, str]:
    """The tags of a version, once its gate is one of these."""
    end = time.monotonic() + 60
    while (tags := tags_of()).get("counterpose.gate") not in wanted and time.monotonic() < end:
        time.sleep(0.05)
    assert tags.get("counterpose.gate") in wanted
    return tags


def test_a_registered_version_is_gated_and_tagged(served: ServedGateway, baseline: Path) -> None:
    client = mlflow.MlflowClient(STORE)

    def tags(version: str) -> dict[str, str]:
        return dict(client.get_model_version("pets", version).tags)

    client.create_registered_model("pets")
    # It looks into the registry by itself at its start alone: the rest is the deliveries' work.
    with ExitStack() as stack:
        gateway = stack.enter_context(Client(served.address))
        address = stack.enter_context(example("pets", baseline, served.address, every=3600.0))
        stack.enter_context(webhook(client, address))
        first = registered(client, "pets", **{"counterpose.classifier": "steady"})
        awaited(partial(tags, first), {"running"})
        second = registered(client, "pets")
        awaited(partial(tags, second), {"running"})
        served.work()
        # This one wakes the program and needs no gate.
        registered(client, "pets", **{"counterpose.gate": "error"})
        same, failed = (awaited(partial(tags, version), ENDED) for version in (first, second))
        gate = gateway.gates.get(failed["counterpose.gate.run"])
        summary = gate.summary()
        assert failed["counterpose.gate"] == summary.outcome == "failed"
        assert failed["counterpose.gate.verdict"] == summary.verdict
        assert failed["counterpose.gate.report"] == gate.page
        assert summary.config.request.classifiers == ["leaning"]
        assert same["counterpose.gate"] in ("passed", "inconclusive")


def test_the_newest_version_that_passes_has_the_alias(served: ServedGateway, baseline: Path) -> None:
    client = mlflow.MlflowClient(STORE)

    def passed(version: str) -> dict[str, str]:
        return awaited(lambda: dict(client.get_model_version("cars", version).tags), {"passed"})

    first = registered(client, "cars")
    with example("cars", baseline, served.address, tolerance=0.6), served.working():
        passed(first)
        assert client.get_model_version_by_alias("cars", "champion").version == first
        second = registered(client, "cars")
        passed(second)
        assert client.get_model_version_by_alias("cars", "champion").version == second
        # As after a gate that was longer than that of a later version.
        client.set_model_version_tag("cars", first, "counterpose.gate", "running")
        passed(first)
        assert client.get_model_version_by_alias("cars", "champion").version == second


def test_mlflow_and_gateway_that_go_away_leave_one_gate(served: ServedGateway, baseline: Path) -> None:
    client = mlflow.MlflowClient(STORE)
    with Client(served.address) as gateway:
        before = {gate.id for gate in gateway.gates.list()}
    # Nobody listens: the delivery is lost.
    version = registered(client, "boats")

    def tags() -> dict[str, str]:
        return dict(client.get_model_version("boats", version).tags)

    with ExitStack() as stack:
        to_gateway = stack.enter_context(fault_proxy(served.port))
        to_store = stack.enter_context(fault_proxy(urlsplit(STORE).port or 0))
        through, store = (f"http://127.0.0.1:{proxy.port}" for proxy in (to_gateway, to_store))
        with to_gateway.broken("down"), example("boats", baseline, through, store):
            with to_store.broken("down"):
                time.sleep(1.0)
            time.sleep(1.0)
            assert "counterpose.gate" not in tags()
        with example("boats", baseline, through, store):
            awaited(tags, {"running"})
            with to_store.broken("down"):
                served.work()
                time.sleep(1.0)
        # The program is killed, and started again.
        with example("boats", baseline, through, store):
            outcome = awaited(tags, ENDED)
    assert outcome["counterpose.gate"] == "failed"
    with Client(served.address) as gateway:
        assert {gate.id for gate in gateway.gates.list()} - before == {outcome["counterpose.gate.run"]}


def delivery(*, secret: str = SECRET, at: float = 0.0, sent: bytes = b"{}") -> dict[str, Any]:
    """A request as MLflow makes it, signed with a secret at a time from now, and its body."""
    signed_at = str(int(time.time() + at))
    signature = hmac.digest(secret.encode(), f"d-1.{signed_at}.".encode() + b"{}", "sha256")
    signed = {
        "x-mlflow-delivery-id": "d-1",
        "x-mlflow-timestamp": signed_at,
        "x-mlflow-signature": f"v1,{base64.b64encode(signature).decode()}",
    }
    return {"headers": signed, "content": sent}


def test_only_what_mlflow_signed_lately_is_taken(served: ServedGateway, baseline: Path) -> None:
    with example("nothing", baseline, served.address) as address, httpx.Client(base_url=address) as http:
        assert http.post("/", **delivery()).status_code == 202
        for forged in (
            delivery(secret="another"), delivery(at=-301), delivery(at=302), delivery(sent=b"[]"),
            {"content": b"{}"}, {"content": b"{}", "headers": {"x-mlflow-signature": "v1,é".encode()}},
        ):  # fmt: skip
            assert http.post("/", **forged).status_code == 401
