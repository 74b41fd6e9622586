"""`results/faults.json` and `results/attacks.json`: what became of every id, test by test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

Outcome = Literal["passed", "failed", "skipped", "not run"]
State = Literal["passed", "failed", "cannot run here", "not run yet", "no test"]


class TestOutcome(BaseModel):
    """One test function with all its cases; ``why`` says why it was skipped or not run."""

    model_config = ConfigDict(frozen=True)
    __test__ = False

    test: str
    outcome: Outcome
    cases: int
    why: str | None = None


class IdResult(BaseModel):
    """What became of one id: failed if a test failed, passed if one passed and none failed."""

    model_config = ConfigDict(frozen=True)

    id: str
    what: str
    state: State
    why: str | None
    tests: tuple[TestOutcome, ...]


class FaultResults(BaseModel):
    """A results file; ``commit`` is the newest that tests ran at: what had passed was not run again."""

    model_config = ConfigDict(frozen=True)

    commit: str
    ids: tuple[IdResult, ...]

    def of(self, state: State) -> Sequence[str]:
        """Return the ids in a state."""
        return [each.id for each in self.ids if each.state == state]


def function_of(test: str) -> str:
    """Return the test function of one of its cases."""
    return test.partition("[")[0]


def outcome_of(test: str, cases: Iterable[tuple[Outcome, str | None]], missing: str | None) -> TestOutcome:
    """Join the cases of a test function; ``missing`` says why one that has none was not run."""
    found = list(cases)
    outcomes = {outcome for outcome, _ in found}
    why = next((each for _, each in found if each is not None), None)
    if not found:
        return TestOutcome(test=test, outcome="not run", cases=0, why=missing)
    joined: Outcome = "failed" if "failed" in outcomes else "passed" if "passed" in outcomes else "skipped"
    return TestOutcome(test=test, outcome=joined, cases=len(found), why=None if joined == "passed" else why)


def result_of(name: str, what: str, tests: Sequence[TestOutcome], waits_for: str | None) -> IdResult:
    """Return what became of an id; ``waits_for`` is the product that one without tests waits for."""
    outcomes = {test.outcome for test in tests}
    state: State = "no test"
    why = None if waits_for is None else f"waits for {waits_for}"
    if "failed" in outcomes:
        state = "failed"
    elif "passed" in outcomes:
        state = "passed"
    elif any(test.outcome == "not run" and test.why is None for test in tests):
        state = "not run yet"
    elif tests:
        state, why = "cannot run here", next((test.why for test in tests if test.why), why)
    return IdResult(id=name, what=what, state=state, why=why, tests=tuple(tests))


def counted(results: FaultResults) -> Mapping[State, int]:
    """Return how many ids are in each state."""
    return {state: len(results.of(state)) for state in get_args(State)}
