"""Exit codes: what --max-drop prints and what it exits with are one and the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpose._cli.exit_code import ExitCode
from counterpose._cli.outcomes import DropLimit, exit_for_error, exit_for_state
from counterpose_core.errors import (
    BackendUnavailable,
    CounterposeError,
    InternalError,
    QuotaExceeded,
    RateLimited,
    RequestError,
    StorageFull,
    Unauthorized,
    UnknownModel,
    error_classes,
)
from counterpose_core.types import Estimate
from fakes.sdk import a_summary

UNKNOWN = Estimate(estimate=None, low=None, high=None, n=0)
bounds = st.floats(-1.0, 1.0, allow_nan=False)
drops = st.one_of(st.just(UNKNOWN), st.tuples(bounds, bounds).map(lambda pair: drop(*sorted(pair))))


def drop(low: float, high: float) -> Estimate:
    return Estimate(estimate=(low + high) / 2, low=low, high=high, n=30)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.2, 0.4, ExitCode.FAILED),
        (0.0, 0.05, ExitCode.PASSED),
        (0.05, 0.2, ExitCode.INCONCLUSIVE),
        (0.1, 0.1, ExitCode.PASSED),
        (-0.3, -0.1, ExitCode.PASSED),
    ],
)
def test_the_whole_interval_must_lie_on_one_side(low: float, high: float, expected: ExitCode) -> None:
    assert DropLimit(0.1).judge(drop(low, high)) is expected


def test_a_drop_without_images_is_inconclusive() -> None:
    assert DropLimit(0.1).judge(UNKNOWN) is ExitCode.INCONCLUSIVE


def test_no_classifier_at_all_is_inconclusive() -> None:
    assert DropLimit(0.1).exit_code(a_summary()) is ExitCode.INCONCLUSIVE


def test_one_proven_failure_outweighs_all_else() -> None:
    summary = a_summary(good=drop(0.0, 0.01), unclear=UNKNOWN, bad=drop(0.3, 0.5))
    assert DropLimit(0.1).exit_code(summary) is ExitCode.FAILED


def test_strict_turns_inconclusive_into_failed_and_leaves_the_rest() -> None:
    unclear, good = a_summary(a=UNKNOWN), a_summary(a=drop(0.0, 0.01))
    assert (DropLimit(0.1).exit_code(unclear), DropLimit(0.1, strict=True).exit_code(unclear)) == (
        ExitCode.INCONCLUSIVE,
        ExitCode.FAILED,
    )
    assert DropLimit(0.1, strict=True).exit_code(good) is ExitCode.PASSED


@settings(max_examples=40, deadline=None)
@given(st.lists(drops, max_size=3), st.floats(0.0, 1.0), st.booleans())
def test_the_printed_result_is_the_exit_code(found: list[Estimate], most: float, strict: bool) -> None:
    summary = a_summary(**{f"model{index}": each for index, each in enumerate(found)})
    limit = DropLimit(most, strict)
    words = limit.explain(summary).split()
    assert words[:3] == ["--max-drop", f"{most:g}", f"{limit.exit_code(summary).name.lower()}:"]
    assert limit.exit_code(summary) in (ExitCode.PASSED, ExitCode.FAILED, ExitCode.INCONCLUSIVE)


@settings(max_examples=25, deadline=None)
@given(drops, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_allowing_more_never_turns_passed_into_failed(found: Estimate, one: float, other: float) -> None:
    lenient, severe = DropLimit(max(one, other)), DropLimit(min(one, other))
    if severe.judge(found) is ExitCode.PASSED:
        assert lenient.judge(found) is ExitCode.PASSED
    if lenient.judge(found) is ExitCode.FAILED:
        assert severe.judge(found) is ExitCode.FAILED


def test_every_classifier_is_named_with_its_drop_and_n() -> None:
    text = DropLimit(0.1).explain(a_summary(steady=drop(0.0, 0.02), leaning=drop(0.2, 0.4)))
    assert "steady 0.010 [0.000, 0.020] (n=30) passed" in text
    assert "leaning 0.300 [0.200, 0.400] (n=30) failed" in text


@pytest.mark.parametrize("most", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_limit_that_is_no_fraction_is_rejected(most: float) -> None:
    with pytest.raises(RequestError, match="0 to 1"):
        DropLimit(most)


def test_an_incomplete_run_is_never_passed() -> None:
    assert exit_for_state("completed") is ExitCode.PASSED
    for state in ("completed_with_failures", "failed", "cancelled", "in_progress"):
        assert exit_for_state(state) is ExitCode.INCOMPLETE


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UnknownModel, ExitCode.USAGE),
        (Unauthorized, ExitCode.REFUSED),
        (QuotaExceeded, ExitCode.REFUSED),
        (RateLimited, ExitCode.INCOMPLETE),
        (BackendUnavailable, ExitCode.INCOMPLETE),
        (StorageFull, ExitCode.INCOMPLETE),
        (InternalError, ExitCode.INCOMPLETE),
    ],
)
def test_errors_find_their_exit_codes(error: type[CounterposeError], expected: ExitCode) -> None:
    assert exit_for_error(error("x")) is expected


@pytest.mark.parametrize("code", sorted(error_classes()))
def test_no_error_ever_looks_like_a_verdict(code: str) -> None:
    assert exit_for_error(error_classes()[code]("x")) in (
        ExitCode.USAGE,
        ExitCode.INCOMPLETE,
        ExitCode.REFUSED,
    )
