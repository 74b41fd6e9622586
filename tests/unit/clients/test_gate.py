"""The gate: the printed verdict and the exit code are one and the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.sdk import a_summary
from faultline._gate import Exit, Gate, exit_for_error, exit_for_state
from faultline_core.errors import (
    BackendUnavailable,
    FaultlineError,
    InternalError,
    QuotaExceeded,
    RateLimited,
    RequestError,
    StorageFull,
    Unauthorized,
    UnknownModel,
    error_classes,
)
from faultline_core.types import Estimate

UNKNOWN = Estimate(estimate=None, low=None, high=None, n=0)
bounds = st.floats(-1.0, 1.0, allow_nan=False)
drops = st.one_of(st.just(UNKNOWN), st.tuples(bounds, bounds).map(lambda pair: drop(*sorted(pair))))


def drop(low: float, high: float) -> Estimate:
    return Estimate(estimate=(low + high) / 2, low=low, high=high, n=30)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.2, 0.4, Exit.FAILED),
        (0.0, 0.05, Exit.PASSED),
        (0.05, 0.2, Exit.INCONCLUSIVE),
        (0.1, 0.1, Exit.PASSED),
        (-0.3, -0.1, Exit.PASSED),
    ],
)
def test_the_whole_interval_must_lie_on_one_side(low: float, high: float, verdict: Exit) -> None:
    assert Gate(0.1).judge(drop(low, high)) is verdict


def test_no_surviving_picture_is_inconclusive() -> None:
    assert Gate(0.1).judge(UNKNOWN) is Exit.INCONCLUSIVE


def test_no_classifier_at_all_is_inconclusive() -> None:
    assert Gate(0.1).verdict(a_summary()) is Exit.INCONCLUSIVE


def test_one_proven_failure_outweighs_all_else() -> None:
    summary = a_summary(good=drop(0.0, 0.01), unclear=UNKNOWN, bad=drop(0.3, 0.5))
    assert Gate(0.1).verdict(summary) is Exit.FAILED


def test_strict_turns_inconclusive_into_failed_and_leaves_the_rest() -> None:
    unclear, good = a_summary(a=UNKNOWN), a_summary(a=drop(0.0, 0.01))
    assert (Gate(0.1).verdict(unclear), Gate(0.1, strict=True).verdict(unclear)) == (
        Exit.INCONCLUSIVE,
        Exit.FAILED,
    )
    assert Gate(0.1, strict=True).verdict(good) is Exit.PASSED


@settings(max_examples=40, deadline=None)
@given(st.lists(drops, max_size=3), st.floats(0.0, 1.0), st.booleans())
def test_the_printed_verdict_is_the_exit_code(found: list[Estimate], most: float, strict: bool) -> None:
    summary = a_summary(**{f"model{index}": each for index, each in enumerate(found)})
    gate = Gate(most, strict)
    words = gate.explain(summary).split()
    assert words[:2] == ["gate", gate.verdict(summary).name.lower()]
    assert gate.verdict(summary) in (Exit.PASSED, Exit.FAILED, Exit.INCONCLUSIVE)


@settings(max_examples=25, deadline=None)
@given(drops, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_allowing_more_never_turns_passed_into_failed(found: Estimate, one: float, other: float) -> None:
    lenient, severe = Gate(max(one, other)), Gate(min(one, other))
    if severe.judge(found) is Exit.PASSED:
        assert lenient.judge(found) is Exit.PASSED
    if lenient.judge(found) is Exit.FAILED:
        assert severe.judge(found) is Exit.FAILED


def test_every_classifier_is_named_with_its_drop_and_n() -> None:
    text = Gate(0.1).explain(a_summary(steady=drop(0.0, 0.02), leaning=drop(0.2, 0.4)))
    assert "steady 0.010 [0.000, 0.020] (n=30) passed" in text
    assert "leaning 0.300 [0.200, 0.400] (n=30) failed" in text


@pytest.mark.parametrize("most", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_threshold_that_can_judge_nothing_is_refused(most: float) -> None:
    with pytest.raises(RequestError, match="0 to 1"):
        Gate(most)


def test_an_incomplete_run_is_never_passed() -> None:
    assert exit_for_state("completed") is Exit.PASSED
    for state in ("completed_with_failures", "failed", "cancelled", "in_progress"):
        assert exit_for_state(state) is Exit.INCOMPLETE


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UnknownModel, Exit.USAGE),
        (Unauthorized, Exit.REFUSED),
        (QuotaExceeded, Exit.REFUSED),
        (RateLimited, Exit.INCOMPLETE),
        (BackendUnavailable, Exit.INCOMPLETE),
        (StorageFull, Exit.INCOMPLETE),
        (InternalError, Exit.INCOMPLETE),
    ],
)
def test_errors_find_their_exit_codes(error: type[FaultlineError], expected: Exit) -> None:
    assert exit_for_error(error("x")) is expected


@pytest.mark.parametrize("code", sorted(error_classes()))
def test_no_error_ever_looks_like_a_verdict(code: str) -> None:
    assert exit_for_error(error_classes()[code]("x")) in (Exit.USAGE, Exit.INCOMPLETE, Exit.REFUSED)
