"""``counterpose runs``: list, show, wait for, cancel, resume, name, delete and open runs of every kind."""

from __future__ import annotations

import json
from typing import Annotated, cast

import typer
from pydantic import TypeAdapter

from counterpose._cli.classifiers import reachable
from counterpose._cli.follow import Output, drop_limit, judge_with, run_to_end
from counterpose._cli.groups import examples, group
from counterpose._cli.kinds import runs_of
from counterpose._cli.options import (
    AsJson,
    MaxDrop,
    OneRun,
    Report,
    Strict,
    ThresholdsGiven,
    Url,
    thresholds_given,
)
from counterpose._cli.spending import LargerImages, LargerUsd
from counterpose._cli.steps import going_on
from counterpose._cli.tables import run_text, runs_text
from counterpose._cli.terminal import connected, print_note, print_result, show
from counterpose._sync.run_handle import AnyRun, UnknownRun
from counterpose._sync.stress_tests import StressTest
from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest
from counterpose_core.kinds import KINDS, RunKind, unknown_kind

Kind = Annotated[
    str | None, typer.Option(metavar="KIND", help=f"Only runs of this kind: {', '.join(KINDS)}.")
]
Most = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Show at most this many runs.")]

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name; left out, it is taken away.")]

FunctionsAgain = Annotated[
    list[str] | None,
    typer.Option(
        "--classifier",
        metavar="SPEC",
        help="One of the run's functions, as py:module:function, whose program has ended. Repeatable.",
    ),
]

app = group("List, follow and read runs of every kind.")


@app.command("list", epilog=examples("counterpose runs list --kind stress-test --limit 5"))
def list_runs(kind: Kind = None, limit: Most = None, as_json: AsJson = False, url: Url = None) -> None:
    """List the runs, newest first."""
    with connected(url) as client:
        if kind is not None and kind not in KINDS:
            raise InvalidRequest(f"unknown kind of run {kind!r}: choose from {', '.join(KINDS)}")
        found = [each.run for each in client.runs.list(kind=cast("RunKind | None", kind))[:limit]]
        # Through pydantic, not json: times keep the form in which the gateway sends them.
        as_bytes = TypeAdapter(list[Run]).dump_json
        print_result(as_bytes(found, indent=2).decode() if as_json else runs_text(found))


def show_run(
    run: OneRun = "@last", threshold: ThresholdsGiven = None, as_json: AsJson = False, url: Url = None
) -> None:
    """Show a run's state and its summary as it stands.

    With --threshold the recorded scores of a stress test are judged again; no image is made.
    """
    with connected(url) as client:
        thresholds = thresholds_given(threshold)
        found: AnyRun = client.runs.get(run)
        if isinstance(found, UnknownRun):
            print_note(unknown_kind(found.run.kind))
            show(found.run, run_text(found.run), as_json)
            return
        summary = with_thresholds(found).summary(thresholds=thresholds) if threshold else found.summary()
        if as_json:
            bodies = {"run": found.run, "summary": summary}
            shown = {name: body.model_dump(mode="json", by_alias=True) for name, body in bodies.items()}
            print_result(json.dumps(shown, indent=2))
        else:
            print_result(f"{run_text(found.run)}\n\n{runs_of(found.run.kind).text(summary)}")


@app.command(epilog=examples("counterpose runs wait @last --report report.html --max-drop 0.05", codes=True))
def wait(
    run: OneRun = "@last",
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
        found: AnyRun = client.runs.get(run)
        if limit is not None and not isinstance(found, StressTest):
            raise InvalidRequest(f"--max-drop needs a stress test, and run {run!r} is a {found.run.kind}")
        raise typer.Exit(run_to_end(found, output, judge=judge_with(limit)))


@app.command(epilog=examples("counterpose runs cancel 3fa8"))
def cancel(run: OneRun, as_json: AsJson = False, url: Url = None) -> None:
    """Cancel a run; finished items are kept."""
    with connected(url) as client:
        cancelled = client.runs.get(run).cancel().run
        show(cancelled, cancelled.state, as_json)


@app.command(
    epilog=examples(
        "counterpose runs resume 3fa8",
        "counterpose runs resume 3fa8 --budget-images 400",
        "counterpose runs resume 3fa8 --classifier py:mymodel:predict",
    )
)
def resume(
    run: OneRun,
    classifier: FunctionsAgain = None,
    budget_usd: LargerUsd = None,
    budget_images: LargerImages = None,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Retry the failed and cancelled items of a run.

    With --classifier the run's functions are served again, and the run is followed to its end.
    """
    with connected(url) as client:
        found: AnyRun = client.runs.get(run)
        budget = {
            name: given
            for name, given in (("usd", budget_usd), ("images", budget_images))
            if given is not None
        }
        if not classifier:
            resumed = found.resume(spending=budget).run
            show(resumed, resumed.state, as_json)
            return
        found.resume(classifiers=reachable(client, classifier, detach=False), spending=budget)
        output = Output(report=None, as_json=as_json)
        raise typer.Exit(run_to_end(found, output, serves_function=True))


@app.command(
    epilog=examples('counterpose runs rename 3fa8 "before the retraining"', "counterpose runs rename 3fa8")
)
def rename(run: OneRun, name: Name = None, as_json: AsJson = False, url: Url = None) -> None:
    """Give a run a name, or take it away; its id stays."""
    with connected(url) as client:
        renamed = client.runs.get(run).rename(name).run
        show(renamed, renamed.name or "the run has no name", as_json)


@app.command(epilog=examples("counterpose runs delete 3fa8"))
def delete(run: OneRun, as_json: AsJson = False, url: Url = None) -> None:
    """Delete a run that has ended, with items and report; images that nothing else has go within hours."""
    with connected(url) as client:
        found = client.runs.get(run)
        found.delete()
        print_result(json.dumps({"deleted": found.id}) if as_json else f"deleted run {found.id}")


def open_run(run: OneRun = "@last", as_json: AsJson = False, url: Url = None) -> None:
    """Show a run's report in the browser; print the file that holds it."""
    with connected(url) as client:
        with going_on("making the report"):
            path = str(client.runs.get(run).open())
        print_result(json.dumps({"report": path}) if as_json else path)


SHOW_EXAMPLES = examples(
    "counterpose show", "counterpose show 3fa8 --json", "counterpose show 3fa8 --threshold direction=0.3"
)
OPEN_EXAMPLES = examples("counterpose open", "counterpose open 3fa8")
app.command("show", epilog=examples("counterpose runs show 3fa8"))(show_run)
app.command("open", epilog=examples("counterpose runs open 3fa8"))(open_run)


def with_thresholds(run: AnyRun) -> StressTest:
    """The run as a stress test, the only kind that --threshold judges again.

    Raises:
        InvalidRequest: it is a run of another kind.
    """
    if not isinstance(run, StressTest):
        raise InvalidRequest(f"--threshold needs a stress test, and run {run.id!r} is a {run.run.kind}")
    return run
