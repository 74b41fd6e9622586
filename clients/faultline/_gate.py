"""The verdict of a stress test as an exit code: passed, failed, or not enough to tell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from faultline_core.contract.interventions import Intervention
from faultline_core.contract.stress_tests import StressTestSummary
from faultline_core.errors import FaultlineError, InvalidRequest, QuotaExceeded, RequestError, Unauthorized
from faultline_core.types import Estimate, RunState


class Exit(IntEnum):
    """What a command's exit code says."""

    PASSED = 0
    FAILED = 1
    USAGE = 2
    INCOMPLETE = 3
    REFUSED = 4
    INCONCLUSIVE = 5
    INTERRUPTED = 130


@dataclass(frozen=True)
class Gate:
    """Fail when a classifier's accuracy drop is proven to exceed ``max_drop`` (a fraction).

    Where no edits but one's own were asked for, each intervention's drops are judged instead.
    """

    max_drop: float
    strict: bool = False

    def __post_init__(self) -> None:
        # Every comparison with NaN is false, which would read as "no drop exceeds it".
        if not 0.0 <= self.max_drop <= 1.0:
            raise InvalidRequest(f"the largest drop is a fraction from 0 to 1, not {self.max_drop!r}")

    def judge(self, drop: Estimate) -> Exit:
        """One drop against the threshold: its whole interval must lie on one side."""
        if drop.low is None or drop.high is None:
            return Exit.INCONCLUSIVE
        # Exactly what is allowed is allowed: the limit itself is no failure.
        if drop.low > self.max_drop:
            return Exit.FAILED
        return Exit.PASSED if drop.high <= self.max_drop else Exit.INCONCLUSIVE

    def verdict(self, summary: StressTestSummary) -> Exit:
        """The worst of all classifiers; ``strict`` turns inconclusive into failed."""
        verdicts = {self.judge(drop) for _, drop in _judged(summary)}
        if Exit.FAILED in verdicts:
            return Exit.FAILED
        if Exit.INCONCLUSIVE in verdicts or not verdicts:
            return Exit.FAILED if self.strict else Exit.INCONCLUSIVE
        return Exit.PASSED

    def explain(self, summary: StressTestSummary) -> str:
        """The verdict in words, then each classifier's drop with its own."""
        word = self.verdict(summary).name.lower()
        drops = ", ".join(f"{name} {drop} {self.judge(drop).name.lower()}" for name, drop in _judged(summary))
        return f"gate {word} at a drop of {self.max_drop:g}: {drops or 'no classifier was judged'}"


def _judged(summary: StressTestSummary) -> list[tuple[str, Estimate]]:
    # Of a run with edits, interventions would be further chances to fail that nobody set a limit for.
    if summary.config.get("request", {}).get("max_edits_per_image") != 0:
        return [(name, model.drop) for name, model in summary.models.items()]
    return [
        (f"{name} where {Intervention(removed=one.removed, added=one.added).in_words()}", model.drop)
        for one in summary.interventions
        for name, model in one.models.items()
    ]


def exit_for_state(state: RunState) -> Exit:
    """A run that failed or is incomplete is never "passed"."""
    return Exit.PASSED if state == "completed" else Exit.INCOMPLETE


def exit_for_error(error: FaultlineError) -> Exit:
    """Which exit code an error leads to."""
    # A retryable refusal (busy, in flight) is nobody's mistake in usage: another try may go through.
    if isinstance(error, (Unauthorized, QuotaExceeded)):
        return Exit.REFUSED
    return Exit.USAGE if isinstance(error, RequestError) and not error.retryable else Exit.INCOMPLETE
