"""The gateway's metrics: what is counted under which labels, and that clients cannot create series."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterpose_core.errors import BackendUnavailable
from counterpose_core.types import Cost
from counterpose_gateway.http.metrics import Metrics
from counterpose_gateway.records.measurements import Measurements
from counterpose_gateway.services.calls import CallCounts
from fakes.gateway import fake_gateway
from fakes.ledgers import Clock


def measured(**known: Any) -> Measurements:
    """What the ledger may know."""
    return Measurements(**{"attempts": {}, "counts": {}, **known})


NOTHING = measured()


def series(exposition: bytes | str, name: str) -> dict[str, float]:
    """The samples of a metric by their labels as written."""
    text = exposition if isinstance(exposition, str) else exposition.decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return {labels.removeprefix(name): float(value) for labels, _, value in lines}


def test_responses_are_counted_by_route_and_status_and_timed_by_route() -> None:
    metrics = Metrics()
    metrics.observe("GET", "/v1/datasets", 200, 0.02)
    metrics.observe("GET", "/v1/datasets", 404, 0.3)
    told = metrics.exposition(NOTHING, {})
    counted = series(told, "counterpose_requests_total")
    assert counted == {
        '{method="GET",route="/v1/datasets",status="200"}': 1.0,
        '{method="GET",route="/v1/datasets",status="404"}': 1.0,
    }
    buckets = series(told, "counterpose_request_seconds_bucket")
    assert buckets['{le="0.025",method="GET",route="/v1/datasets"}'] == 1.0
    assert buckets['{le="+Inf",method="GET",route="/v1/datasets"}'] == 2.0


def test_active_runs_are_reported_as_of_now() -> None:
    metrics = Metrics()
    assert series(metrics.exposition(measured(active_runs=3), {}), "counterpose_active_runs") == {"": 3.0}
    assert series(metrics.exposition(measured(active_runs=1), {}), "counterpose_active_runs") == {"": 1.0}


def test_a_circuit_has_one_series_per_state_and_one_of_them_is_1() -> None:
    metrics = Metrics()
    metrics.exposition(NOTHING, {"editor": "closed", "scorer": "closed"})
    told = series(
        metrics.exposition(NOTHING, {"editor": "open", "scorer": "half-open"}), "counterpose_service_circuit"
    )
    assert {labels for labels, value in told.items() if value == 1.0} == {
        '{service="editor",state="open"}', '{service="scorer",state="half-open"}',
    }  # fmt: skip
    assert len(told) == 6


def test_two_gateways_in_one_process_count_separately() -> None:
    first, second = Metrics(), Metrics()
    first.observe("GET", "/", 200, 0.1)
    assert series(second.exposition(NOTHING, {}), "counterpose_requests_total") == {}


def test_run_costs_have_one_counter_per_kind() -> None:
    metrics = Metrics()
    metrics.exposition(measured(cost=Cost(flops=1)), {})
    cost = Cost(unet_evaluations=12, flops=9 * 10**15, host_syncs=3, seconds=0.5)
    told = metrics.exposition(measured(cost=cost), {})
    for name, amount in (("unet_evaluations", 12.0), ("flops", 9e15), ("host_syncs", 3.0), ("seconds", 0.5)):
        assert series(told, f"counterpose_cost_{name}_total") == {"": amount}
    assert told.decode().count("TYPE counterpose_cost_") == len(Cost.model_fields)
    assert "# TYPE counterpose_cost_attention_map_bytes_total counter" in told.decode()


def test_calls_become_a_counter_by_outcome_and_a_histogram() -> None:
    time = Clock(0.0)
    calls = CallCounts(time)
    for seconds in (0.2, 0.2, 400.0):
        with calls.call("editor"):
            time.now += seconds
    with pytest.raises(BackendUnavailable), calls.call("editor"):
        raise BackendUnavailable("gone")
    told = Metrics().exposition(measured(counts=calls.taken()), {})
    counted = series(told, "counterpose_service_calls_total")
    assert counted['{outcome="ok",service="editor"}'] == 3.0
    assert counted['{outcome="backend-unavailable",service="editor"}'] == 1.0
    assert counted['{outcome="ok",service="scorer"}'] == 0.0
    buckets = series(told, "counterpose_service_call_seconds_bucket")
    assert [buckets[f'{{le="{bound}",service="editor"}}'] for bound in ("0.01", "0.3", "300.0", "+Inf")] == [
        1.0, 3.0, 3.0, 4.0,
    ]  # fmt: skip
    assert series(told, "counterpose_service_call_seconds_sum")['{service="editor"}'] == pytest.approx(400.4)
    assert calls.taken() == {}


async def test_ids_and_unknown_addresses_create_no_series(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        for path in ("/v1/runs/a", "/v1/runs/b", "/made/up", "/v1/../x", "/healthz"):
            await gateway.http.get(path)
        told = series((await gateway.http.get("/metrics")).text, "counterpose_requests_total")
    assert told == {
        '{method="GET",route="/v1/runs/{run_id}",status="404"}': 2.0,
        '{method="GET",route="none",status="404"}': 2.0,
        '{method="GET",route="/healthz",status="200"}': 1.0,
    }


async def test_circuits_are_reported_without_calling_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_gateway(tmp_path) as gateway:
        gateway.health.down.add("editor")
        monkeypatch.delattr(type(gateway.health), "services")
        told = series((await gateway.http.get("/metrics")).text, "counterpose_service_circuit")
    assert told['{service="editor",state="open"}'] == 1.0
    assert sum(told.values()) == 5.0


async def test_services_are_listed_with_their_circuits(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        gateway.health.down.add("editor")
        listed = (await gateway.http.get("/v1/services")).json()["services"]
    circuits = {service["service"]: service["circuit"] for service in listed}
    assert circuits.pop("editor") == "open"
    assert set(circuits.values()) == {"closed"}
