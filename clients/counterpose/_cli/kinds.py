"""What commands know of the runs of a kind: a value in the module of the kind's own command."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from counterpose._cli.exit_code import ExitCode
from counterpose._cli.terminal import print_note
from counterpose._run_calls import Summary
from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest
from counterpose_core.kinds import KINDS, unknown_kind


@dataclass(frozen=True, kw_only=True)
class RunsOfKind(Generic[Summary]):
    """The runs of a kind, as commands print and judge them.

    Attributes:
        text: returns a summary as it is printed.
        judge: returns the exit code of a run that completed, if no limit is given.
        command: the command whose runs may be jobs, if they may.
        submitted: examples and exit codes of it as ``counterpose submit``.
        instead: says what to do for images of a run that exports none.
    """

    text: Callable[[Summary], str]
    judge: Callable[[Summary], ExitCode]
    command: Callable[..., None] | None = None
    submitted: str = ""
    instead: Callable[[Run], str] | None = None


def runs_of(kind: str) -> RunsOfKind[Any]:
    """Return what commands know of a kind, from the module that has its name.

    Raises:
        InvalidRequest: this version does not know the kind.
    """
    if kind not in KINDS:
        raise InvalidRequest(unknown_kind(kind))
    of_kind = importlib.import_module(f"counterpose._cli.{kind.replace('-', '_')}").RUNS
    assert isinstance(of_kind, RunsOfKind)  # each of them has one
    return of_kind


def judged_by(says_something: Callable[[Summary], bool]) -> Callable[[Summary], ExitCode]:
    """Return a judge that no limit is given: a run that says nothing passes nothing.

    Args:
        says_something: whether a summary says anything of a classifier or a finding, or by what was made.
    """

    def judge(summary: Summary) -> ExitCode:
        if says_something(summary):
            return ExitCode.PASSED
        code = ExitCode.INCONCLUSIVE
        print_note(f"inconclusive: the run has no verdict (exit code {code})")
        return code

    return judge
