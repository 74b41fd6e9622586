"""``faultline wait``, ``cancel``, ``resume`` and ``runs``: for runs of whatever kind."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from faultline._client import Client
from faultline._dataset_interface_run import DatasetInterface
from faultline._ending import MaxDrop, Report, RunId, Strict, gate_of, judged_by, see_through
from faultline._gate import Exit
from faultline._shift_benchmark_run import ShiftBenchmark
from faultline._stress_test_run import StressTest
from faultline._summary_tables import interface_table
from faultline._terminal import AsJson, Url, connected, show, show_runs
from faultline_core.contract.runs import Run
from faultline_core.errors import InvalidRequest, NotFound

AnyRun = StressTest | DatasetInterface | ShiftBenchmark


def wait(
    run_id: RunId,
    report: Report = None,
    max_drop: MaxDrop = None,
    strict: Strict = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Wait for a run and print its summary."""
    with connected(url) as client:
        gate = gate_of(max_drop, strict, report)
        run = run_of(client, run_id)
        if isinstance(run, StressTest):
            raise typer.Exit(see_through(run, str, report, as_json, judged=judged_by(gate)))
        if gate is not None:
            raise InvalidRequest(f"--max-drop judges stress tests, and {run_id!r} is a {run.run.kind}")
        raise typer.Exit(_unjudged(run, report, as_json))


def _unjudged(run: DatasetInterface | ShiftBenchmark, report: Report, as_json: bool) -> Exit:
    if isinstance(run, DatasetInterface):
        return see_through(run, interface_table, report, as_json)
    return see_through(run, str, report, as_json)


def cancel(run_id: RunId, as_json: AsJson = False, url: Url = None) -> None:
    """Cancel a run; what is finished is kept."""
    with connected(url) as client:
        run = run_of(client, run_id).cancel().run
        show(run, run.state, as_json)


def resume(run_id: RunId, as_json: AsJson = False, url: Url = None) -> None:
    """Take the failed and cancelled items of a run up again."""
    with connected(url) as client:
        run = run_of(client, run_id).resume().run
        show(run, run.state, as_json)


def runs(as_json: AsJson = False, url: Url = None) -> None:
    """List the runs, newest first."""
    with connected(url) as client:
        show_runs(sorted(_all_runs(client), key=lambda run: run.created_at, reverse=True), as_json)


def run_of(client: Client, run_id: str) -> AnyRun:
    """Take a run up by its id alone, which does not tell of which kind it is.

    Raises:
        NotFound: there is no such run of any kind.
    """
    for resource in (client.stress_tests, client.dataset_interfaces, client.shift_benchmarks):
        try:
            return resource.get(run_id)
        except NotFound:
            continue
    raise NotFound(f"no run {run_id!r}")


def _all_runs(client: Client) -> Iterator[Run]:
    for resource in (client.stress_tests, client.dataset_interfaces, client.shift_benchmarks):
        yield from resource.list()
