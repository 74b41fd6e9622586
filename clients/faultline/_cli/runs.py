"""``faultline wait``, ``cancel``, ``resume`` and ``runs``: for runs of every kind."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from pydantic import TypeAdapter

from faultline._cli.exit_code import ExitCode
from faultline._cli.follow import Output, drop_limit, judge_with, run_to_end
from faultline._cli.options import AsJson, MaxDrop, Report, RunId, Strict, Url
from faultline._cli.tables import interface_text, runs_text, shift_benchmark_text, stress_test_text
from faultline._cli.terminal import connected, print_result, show
from faultline._client import Client
from faultline._dataset_interface_run import DatasetInterface
from faultline._shift_benchmark_run import ShiftBenchmark
from faultline._stress_test_run import StressTest
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
    """Wait for a run to end and print its summary."""
    with connected(url) as client:
        output = Output(report=report, as_json=as_json)
        limit = drop_limit(max_drop, strict)
        run = run_of(client, run_id)
        if isinstance(run, StressTest):
            raise typer.Exit(run_to_end(run, stress_test_text, output, judge=judge_with(limit)))
        if limit is not None:
            raise InvalidRequest(f"--max-drop needs a stress test, and run {run_id!r} is a {run.run.kind}")
        raise typer.Exit(_without_limit(run, output))


def _without_limit(run: DatasetInterface | ShiftBenchmark, output: Output) -> ExitCode:
    if isinstance(run, DatasetInterface):
        return run_to_end(run, interface_text, output)
    return run_to_end(run, shift_benchmark_text, output)


def cancel(run_id: RunId, as_json: AsJson = False, url: Url = None) -> None:
    """Cancel a run; finished items are kept."""
    with connected(url) as client:
        run = run_of(client, run_id).cancel().run
        show(run, run.state, as_json)


def resume(run_id: RunId, as_json: AsJson = False, url: Url = None) -> None:
    """Retry the failed and cancelled items of a run."""
    with connected(url) as client:
        run = run_of(client, run_id).resume().run
        show(run, run.state, as_json)


def runs(as_json: AsJson = False, url: Url = None) -> None:
    """List the runs, newest first."""
    with connected(url) as client:
        found = sorted(_all_runs(client), key=lambda run: run.created_at, reverse=True)
        # Through pydantic, not json: times keep the form in which the gateway sends them.
        as_bytes = TypeAdapter(list[Run]).dump_json
        print_result(as_bytes(found, indent=2).decode() if as_json else runs_text(found))


def run_of(client: Client, run_id: str) -> AnyRun:
    """Return the run of this id, whatever its kind.

    Raises:
        NotFound: no run of any kind has this id.
    """
    for resource in (client.stress_tests, client.dataset_interfaces, client.shift_benchmarks):
        try:
            return resource.get(run_id)
        except NotFound:
            continue
    raise NotFound(f"no run {run_id!r}: `faultline runs` lists the runs")


def _all_runs(client: Client) -> Iterator[Run]:
    for resource in (client.stress_tests, client.dataset_interfaces, client.shift_benchmarks):
        yield from resource.list()
