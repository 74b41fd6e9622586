"""One trace: from the client's request through the ledger to each call of a model, as a collector gets it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from counterpose import AsyncClient
from counterpose_core.installation import adding
from counterpose_core.tracing import ENDPOINT_VARIABLE, Tracing, tracing_to
from counterpose_gateway.services.caller import ServiceCaller
from counterpose_gateway.services.clients import SERVICE_NAMES, services_of
from counterpose_gateway.services.ports import Services
from counterpose_gateway.settings import GatewaySettings, settings_from
from counterpose_services.settings import ServiceSettings
from fakes.gateway import fake_gateway
from fakes.otlp_receiver import OtlpReceiver, ReceivedSpan, receiving
from fakes.ports import fake_services
from fakes.service_apps import ServiceApps
from fakes.world import FakeWorld

SECRET = "a-secret-of-some-length"
SERVED = {f"counterpose-{name}" for name in SERVICE_NAMES}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    """A collector that every program of this process is told."""
    with receiving() as opened:
        monkeypatch.setenv(ENDPOINT_VARIABLE, opened.url)
        # OpenTelemetry's own setting: spans are sent each 100 ms instead of each 5 s.
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield opened


def services_over_http(
    tracing: Tracing, folder: Path, endpoint: str | None
) -> Callable[[FakeWorld], Services]:
    """The ports over the services' real applications, which also make spans."""

    def open_ports(world: FakeWorld) -> Services:
        given = {"state_dir": folder, "secret": SECRET, "otlp_endpoint": endpoint}
        settings = ServiceSettings.model_validate(given)
        http = httpx.AsyncClient(transport=ServiceApps(fake_services(world), settings))
        return services_of(
            ServiceCaller(http, GatewaySettings.model_validate({"secret": SECRET}), tracing=tracing)
        )

    return open_ports


def ancestors(span: ReceivedSpan, spans: dict[str, ReceivedSpan]) -> list[str]:
    """The names of a span's ancestors with their programs, the nearest first."""
    found = []
    while span.parent:
        span = spans[span.parent]
        found.append(f"{span.program}: {span.name}")
    return found


async def test_a_stress_test_is_one_trace_from_the_client_to_every_model(
    receiver: OtlpReceiver, tmp_path: Path
) -> None:
    gateway, worker = (tracing_to(receiver.url, f"counterpose-{name}") for name in ("gateway", "worker"))
    ports = services_over_http(worker, tmp_path, receiver.url)
    async with fake_gateway(tmp_path, ports=ports, tracing=gateway) as opened:
        await opened.upload("demo", 1)
        client = AsyncClient(http=opened.http)
        run = await client.stress_tests.create(dataset="demo", classifiers=["steady"], seed=1)
        await opened.worker(tracing=worker).work_off()
        items = [item async for item in run.items()]
    receiver.wait_for({"counterpose", "counterpose-gateway", "counterpose-worker", *SERVED})
    gateway.close()
    worker.close()

    made = [span for span in receiver.spans if span.attributes.get("counterpose.run") == run.id]
    traces = {span.trace for span in made}
    assert len(traces) == 1
    spans = {span.id: span for span in receiver.spans if span.trace in traces}
    assert {span.program for span in spans.values()} >= {"counterpose", "counterpose-worker", *SERVED}
    # Polls and lists make none.
    assert "classifiers /v1/classifiers" not in {span.name for span in receiver.spans}
    of_items = [item for span in made for item in span.attributes["counterpose.items"].split(",")]
    assert sorted(of_items) == sorted(item.id for item in items)
    for program in SERVED:
        served = [span for span in spans.values() if span.program == program]
        from_items = [ancestors(span, spans) for span in served]
        own = {tuple(names) for names in from_items if "counterpose-worker: stress-test items" in names}
        assert own
        assert all(
            names[1:]
            == (
                "counterpose-worker: stress-test items",
                "counterpose-gateway: POST /v1/stress-tests",
                "counterpose: POST /v1/stress-tests",
            )
            for names in own
        )


async def test_without_an_endpoint_a_caller_s_trace_is_not_kept(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as opened:
        await opened.upload("demo", 1)
        request = {"dataset": "demo", "classifiers": ["steady"], "seed": 1}
        given = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
        await opened.http.post("/v1/stress-tests", json=request, headers=given)
        group = opened.ledger.items.lease("worker", seconds=30)
    assert group is not None
    assert group.trace is None


PROGRAM = """
import sys
import counterpose
from counterpose_core.tracing import tracing_to
from counterpose_gateway import main

def makes_none(tracing):
    with tracing.span("any"):
        return tracing.current() is None

counterpose.Client("http://127.0.0.1:1")
assert makes_none(tracing_to(None, "counterpose-gateway"))
ours = ("opentelemetry.sdk", "opentelemetry.exporter")  # FastAPI imports the API itself
assert not [name for name in sys.modules if name.startswith(ours)]
sys.modules["opentelemetry.exporter.otlp.proto.http.trace_exporter"] = None
assert makes_none(tracing_to("http://127.0.0.1:1", "counterpose-gateway"))
"""


def test_opentelemetry_is_not_needed_and_without_an_endpoint_not_imported() -> None:
    variables = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=variables, check=False
    )
    assert done.returncode == 0, done.stderr
    assert adding("otel") in done.stderr


def test_both_programs_read_opentelemetry_s_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = "http://collector:4318"
    assert settings_from({ENDPOINT_VARIABLE: collector}).otlp_endpoint == collector
    assert settings_from({"COUNTERPOSE_OTLP_ENDPOINT": collector}).otlp_endpoint is None
    monkeypatch.setenv(ENDPOINT_VARIABLE, collector)
    assert ServiceSettings.model_validate({"secret": SECRET}).otlp_endpoint == collector
