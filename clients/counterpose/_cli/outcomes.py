"""What ends a command with which exit code: a drop of accuracy, a gate, a run's state, an error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from counterpose._cli.exit_code import ExitCode
from counterpose_core.contract.gates import GateOutcome
from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transforms import OperationLevel
from counterpose_core.errors import (
    CounterposeError,
    InvalidRequest,
    QuotaExceeded,
    RequestError,
    Unauthorized,
)
from counterpose_core.types import Estimate, RunState


class JudgedDrop(NamedTuple):
    """A drop that a limit judges; ``words`` say what the image is or does then, empty for all edits."""

    classifier: str
    change: str
    words: str
    drop: Estimate

    def __str__(self) -> str:
        return f"{self.classifier} where {self.words}" if self.words else self.classifier


@dataclass(frozen=True)
class DropLimit:
    """Fail when a classifier's accuracy drop is proven to exceed ``max_drop`` (a fraction).

    For a run that made only the caller's own interventions, the drop of each intervention is judged; for one
    of operations, the loss of each at each level, which fails only where it is shown after correction.
    """

    max_drop: float
    strict: bool = False

    def __post_init__(self) -> None:
        # Every comparison with NaN is false, which would read as "no drop exceeds it".
        if not 0.0 <= self.max_drop <= 1.0:
            raise InvalidRequest(f"--max-drop must be a fraction from 0 to 1, not {self.max_drop!r}")

    def judge(self, drop: Estimate) -> ExitCode:
        """Compare one drop with the limit: its whole interval must lie on one side."""
        if drop.low is None or drop.high is None:
            return ExitCode.INCONCLUSIVE
        # Exactly what is allowed is allowed: the limit itself is no failure.
        if drop.low > self.max_drop:
            return ExitCode.FAILED
        return ExitCode.PASSED if drop.high <= self.max_drop else ExitCode.INCONCLUSIVE

    def exit_code(self, summary: StressTestSummary) -> ExitCode:
        """Return the worst result of all classifiers; ``strict`` turns inconclusive into failed."""
        worst = self.worst(judged_drops(summary))
        return ExitCode.FAILED if self.strict and worst is ExitCode.INCONCLUSIVE else worst

    def worst(self, drops: Iterable[JudgedDrop]) -> ExitCode:
        """Return the worst result of some drops; none are inconclusive."""
        results = {self.judge(each.drop) for each in drops}
        if ExitCode.FAILED in results:
            return ExitCode.FAILED
        return ExitCode.PASSED if results == {ExitCode.PASSED} else ExitCode.INCONCLUSIVE

    def explain(self, summary: StressTestSummary) -> str:
        """Say the result in words, then each classifier's drop with its own result."""
        result = self.exit_code(summary).name.lower()
        drops = ", ".join(
            f"{each} {each.drop} {self.judge(each.drop).name.lower()}" for each in judged_drops(summary)
        )
        return f"--max-drop {self.max_drop:g} {result}: {drops or 'no classifier was judged'}"


def _corrected(level: OperationLevel) -> Estimate:
    """The loss; its interval, of this level alone, holds 0 where the corrected test shows no loss."""
    low = level.loss.low
    is_loss = level.shown or level.real
    return level.loss if is_loss or low is None else level.loss.model_copy(update={"low": min(low, 0.0)})


def judged_drops(summary: StressTestSummary) -> list[JudgedDrop]:
    """Return each drop that a limit judges."""
    figures = [] if summary.transforms is None else summary.transforms.figures
    operations = [
        JudgedDrop(each.classifier, each.title, f"the image {level.words}", _corrected(level))
        for each in figures
        for level in each.levels
    ]
    # With planned edits, judging interventions too would add chances to fail that no limit was set for.
    if summary.config.get("request", {}).get("max_edits_per_image") != 0:
        return [
            *(JudgedDrop(name, "all edits", "", model.drop) for name, model in summary.models.items()),
            *operations,
        ]
    return operations + [
        JudgedDrop(
            name, words := Intervention(removed=each.removed, added=each.added).in_words(), words, model.drop
        )
        for each in summary.interventions
        for name, model in each.models.items()
    ]


def exit_for_state(state: RunState) -> ExitCode:
    """Return the exit code of a run's final state: a failed or incomplete run never passes."""
    return ExitCode.PASSED if state == "completed" else ExitCode.INCOMPLETE


def exit_for_gate(outcome: GateOutcome | None, *, strict: bool = False) -> ExitCode:
    """Return the exit code of a gate's outcome; ``strict`` turns inconclusive into failed."""
    match outcome:
        case "passed":
            return ExitCode.PASSED
        case "failed":
            return ExitCode.FAILED
        case "inconclusive":
            return ExitCode.FAILED if strict else ExitCode.INCONCLUSIVE
        case _:
            return ExitCode.INCOMPLETE


def exit_for_error(error: CounterposeError) -> ExitCode:
    """Return the exit code of an error."""
    if isinstance(error, (Unauthorized, QuotaExceeded)):
        return ExitCode.REFUSED
    # A retryable refusal (busy, in flight) is no mistake in usage: another try may succeed.
    return ExitCode.USAGE if isinstance(error, RequestError) and not error.retryable else ExitCode.INCOMPLETE
