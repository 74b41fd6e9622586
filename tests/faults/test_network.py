"""F27: what lies between gateway and services delays, cuts and drops their calls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpose_processes.ports import free_port
from fakes.fault_proxy import TOXICS, FaultProxy, Toxic, fault_proxy
from fakes.reference_run import ITEMS, ReferenceRuns, Told, reference_runs, report

SECONDS = 6.0
DOWN_SECONDS = 30.0
CALL_SECONDS = 4.0


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ReferenceRuns, FaultProxy]]:
    services_port = free_port()
    folder: Path = tmp_path_factory.mktemp("proxied")
    with (
        fault_proxy(services_port) as proxy,
        reference_runs(
            folder,
            services_port=services_port,
            lease_seconds=10.0,
            more={
                "COUNTERPOSE_SERVICES_URL": f"http://127.0.0.1:{proxy.port}",
                "COUNTERPOSE_CALL_SECONDS": f"{CALL_SECONDS:g}",
            },
        ) as runs,
    ):
        yield runs, proxy


@pytest.fixture(scope="module")
def undisturbed(proxied: tuple[ReferenceRuns, FaultProxy]) -> Told:
    runs, _ = proxied
    told = runs.told(runs.start_run())
    assert told.states == {"done": ITEMS}
    return told


@pytest.mark.fault("F27")
@pytest.mark.timeout(200)
@pytest.mark.parametrize("toxic", TOXICS)
def test_f27_a_broken_network_loses_nothing(
    proxied: tuple[ReferenceRuns, FaultProxy], undisturbed: Told, toxic: Toxic
) -> None:
    runs, proxy = proxied
    run_id = runs.start_run()
    runs.wait_for_items(run_id, ITEMS // 8)
    with proxy.broken(toxic):
        time.sleep(DOWN_SECONDS if toxic == "down" else SECONDS)
    told = runs.told(run_id)
    report(f"F27 {toxic}", told, undisturbed, 0)
    # A control tells which models its group had asked by then: fewer, if a call of the edits was repeated.
    assert told.without_models() == undisturbed.without_models()
    assert told.revisions == undisturbed.revisions
