"""Following a run to its end: progress, summary, report, exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from counterpose._cli.classifiers import reachable
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.kinds import runs_of
from counterpose._cli.outcomes import DropLimit, exit_for_state
from counterpose._cli.placement import current
from counterpose._cli.progress import follow_progress
from counterpose._cli.steps import going_on
from counterpose._cli.terminal import check_writable, exit_on_error, print_note, show, write_report
from counterpose._run_calls import AnyItem, Summary
from counterpose._sync.client import Client
from counterpose._sync.run_handle import RunHandle
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.errors import BudgetSpent, ImagesOutsideSuite, InvalidRequest


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where a run's results go.

    Raises:
        InvalidRequest: the report cannot be written there, or the command will not see the run's end.
    """

    report: Path | None
    as_json: bool
    detach: bool = False

    def __post_init__(self) -> None:
        self.check(self.report)

    def check(self, *files: Path | None) -> None:
        """Reject files of the run's end that cannot be written; raises as the class does."""
        check_writable(*files)
        late = next((file for file in files if file is not None), None)
        if self.detach and late is not None:
            raise InvalidRequest(
                f"--detach leaves before the run ends, so {str(late)!r} would not be written; leave out one "
                "of both, or write the report later with `counterpose report`"
            )


def _writes_nothing(_: object, __: ExitCode) -> None:
    return


def create_and_follow(
    create: Callable[[], RunHandle[AnyItem, Summary]],
    output: Output,
    *,
    render: Callable[[Summary], str] | None = None,
    judge: Callable[[Summary], ExitCode] | None = None,
    write: Callable[[Summary, ExitCode], None] = _writes_nothing,
    serves_function: bool = False,
) -> None:
    """Start a run, then print its id and leave, or follow it and exit with its result.

    Args:
        create: starts the run.
        output: where results go, and whether to leave at once.
        render: turns the summary into the text to print; default: its kind's own.
        judge: turns the summary of a completed run into an exit code; default: its kind's own.
        write: writes files of the summary, with the exit code of the run's state: of a run that did not
            complete too.
        serves_function: whether the run calls a Python function that this command serves.
    """
    with going_on("planning the run"):
        run = create()
    # Said before it works, and where it is left alone: what it cannot show, however it comes out.
    for note in run.run.resolved_config.get("notes", []):
        print_note(f"note: {note}")
    if output.detach:
        show(run.run, run.id, output.as_json)
        return
    # Before anything else: a lost connection to this terminal must not lose the run.
    print_note(f"run {run.id}")
    print_note(f"watch: {run.page}")
    reason = (run.run.resolved_config.get("confirmation") or {}).get("reason")
    if reason and not any(reason in note for note in run.run.resolved_config.get("notes", [])):
        print_note(f"nothing can be confirmed: {reason}")
    code = run_to_end(run, output, render=render, judge=judge, write=write, serves_function=serves_function)
    raise typer.Exit(code)


def serve_and_follow(
    client: Client,
    classifiers: Sequence[str],
    create: Callable[[list[str]], RunHandle[AnyItem, Summary]],
    output: Output,
    *,
    render: Callable[[Summary], str] | None = None,
    judge: Callable[[Summary], ExitCode] | None = None,
    write: Callable[[Summary, ExitCode], None] = _writes_nothing,
) -> None:
    """Serve the functions among the classifiers, start a run of them and follow it, as `create_and_follow`.

    Args:
        client: serves the functions.
        classifiers: as they were named to the command.
        create: starts the run of the classifiers, as the client names them.
        output, render, judge, write: as above.

    Raises:
        InvalidRequest: a function cannot be used, or --detach would stop serving it before the run ends.
    """
    specs = reachable(client, classifiers, detach=output.detach)
    create_and_follow(
        lambda: create(specs),
        output,
        render=render,
        judge=judge,
        write=write,
        serves_function=specs != list(classifiers),
    )


def run_to_end(
    run: RunHandle[AnyItem, Summary],
    output: Output,
    *,
    render: Callable[[Summary], str] | None = None,
    judge: Callable[[Summary], ExitCode] | None = None,
    write: Callable[[Summary, ExitCode], None] = _writes_nothing,
    serves_function: bool = False,
) -> ExitCode:
    """Follow a run to its end, print its summary, and return the exit code; arguments as above."""
    with exit_on_error(_interrupt_hint(run.id, serves_function)):
        placement = current()
        follow_progress(run, quiet=output.as_json, look=None if placement is None else placement.look)
        if not output.as_json:
            print_note("summing up")
        kind = runs_of(run.run.kind)
        with going_on("summing up"):
            summary = run.summary()
        # The summary first: a report that cannot be written must not cost it.
        show(summary, (render or kind.text)(summary), output.as_json)
        ended = exit_for_state(run.run.state)
        write(summary, ended)
        if output.report is not None:
            with going_on("making the report"):
                html = run.report()
            write_report(output.report, html)
        if ended is ExitCode.PASSED:
            return (judge or kind.judge)(summary)
        print_note(f"the run ended {run.run.state}: {failures(run.run, summary)}")
        return ended


def drop_limit(max_drop: float | None, strict: bool, junit: Path | None = None) -> DropLimit | None:
    """Read --max-drop, and --strict and --junit, which need it.

    Raises:
        InvalidRequest: the limit is not a fraction, or one of the others stands alone.
    """
    if max_drop is None and (strict or junit):
        name = "--strict" if strict else "--junit"
        raise InvalidRequest(f"{name} needs --max-drop, which says what fails")
    return None if max_drop is None else DropLimit(max_drop, strict)


def judge_with(limit: DropLimit | None) -> Callable[[StressTestSummary], ExitCode] | None:
    """Return a function that judges a summary by the limit; None where there is none."""

    def judge(summary: StressTestSummary) -> ExitCode:
        assert limit is not None
        print_note(limit.explain(summary))
        return limit.exit_code(summary)

    return None if limit is None else judge


def _interrupt_hint(run_id: str, serves_function: bool) -> str:
    if serves_function:
        again = f"counterpose runs resume {run_id} --classifier py:module:function"
        return f"; the run stops where it needs your function, go on with: {again}"
    return f"; the run continues, follow it with: counterpose runs wait {run_id}"


def failures(run: Run, summary: object) -> str:
    """Say why a run did not complete."""
    if run.problem is not None and run.problem.code in (ImagesOutsideSuite.code, BudgetSpent.code):
        return run.problem.detail
    if isinstance(summary, StressTestSummary) and summary.failed_codes:
        return ", ".join(f"{code}: {count}" for code, count in summary.failed_codes.items())
    counts = run.request_counts
    # Between two stages a run may fail without a failed item.
    if run.problem is not None and not counts.failed:
        return run.problem.detail
    return f"{counts.failed} of {counts.total} items failed" if counts.failed else "no item failed"
