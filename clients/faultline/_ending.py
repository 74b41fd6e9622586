"""How a command stays with its run to the end: progress, figures, report, exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from faultline._gate import Exit, Gate, exit_for_state
from faultline._progress import follow
from faultline._run_calls import AnyItem, Summary
from faultline._runs import RunHandle
from faultline._terminal import check_writable, complain, ending_well, show, write_report
from faultline_core.contract.runs import Run
from faultline_core.contract.stress_tests import StressTestSummary
from faultline_core.errors import InvalidRequest

RunId = Annotated[str, typer.Argument(help="The run's id.")]
Report = Annotated[Path | None, typer.Option(help="Write the HTML report there.")]
Detach = Annotated[bool, typer.Option(help="Print the run's id and leave.")]
MaxDrop = Annotated[float | None, typer.Option(help="Gate: fail above this accuracy drop, 0 to 1.")]
Strict = Annotated[bool, typer.Option(help="Gate: count inconclusive as failed.")]


def _passed(_: object) -> Exit:
    return Exit.PASSED


def gate_of(max_drop: float | None, strict: bool, report: Path | None) -> Gate | None:
    """What judges the run; refused now, not after hours, if it or the report can come to nothing."""
    check_writable(report)
    if max_drop is None and strict:
        raise InvalidRequest("--strict has nothing to judge without --max-drop")
    return None if max_drop is None else Gate(max_drop, strict)


def see_through(
    run: RunHandle[AnyItem, Summary],
    told: Callable[[Summary], str],
    report: Path | None,
    as_json: bool,
    *,
    judged: Callable[[Summary], Exit] = _passed,
    ours: bool = False,
) -> Exit:
    """Stay with a run to its end, show its figures as ``told``, and say what to exit with.

    That is what the run ended as, or what its figures are ``judged`` to be; ``ours`` says that it needs
    what this command serves, and fails without.
    """
    goes_on = "without your function: faultline cancel" if ours else "faultline wait"
    with ending_well(f"; the run goes on: {goes_on} {run.id}"):
        follow(run, quiet=as_json)
        summary = run.summary()
        # Figures first: a report that cannot be written must not cost them.
        show(summary, told(summary), as_json)
        if report is not None:
            write_report(report, run.report())
        ended = exit_for_state(run.run.state)
        if ended is Exit.PASSED:
            return judged(summary)
        complain(f"the run ended {run.run.state}: {_failures(run.run, summary)}")
        return ended


def _failures(run: Run, summary: object) -> str:
    if isinstance(summary, StressTestSummary) and summary.failed_codes:
        return str(summary.failed_codes)
    counts = run.request_counts
    return f"{counts.failed} of {counts.total} items failed" if counts.failed else "nothing failed"


def judged_by(gate: Gate | None) -> Callable[[StressTestSummary], Exit]:
    """What a stress test's figures are judged by; without a gate every figure will do."""

    def judge(summary: StressTestSummary) -> Exit:
        if gate is None:
            return Exit.PASSED
        complain(gate.explain(summary))
        return gate.verdict(summary)

    return judge
