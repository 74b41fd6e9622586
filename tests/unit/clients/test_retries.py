"""A call is sent again only where that is safe, as often as the policy says, after the pause it says."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from counterpose import RetryPolicy
from counterpose_core.contract.base import IDEMPOTENCY_HEADER
from counterpose_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    CounterposeError,
    DeadlineExceeded,
    DiskFailed,
    IdempotencyInFlight,
    InvalidRequest,
    RateLimited,
    ResourceExhausted,
    ShardUnreadable,
    StorageFull,
    error_classes,
)
from fakes.sdk import Answer, Session, ok, problem, run_answer

SERVICES: dict[str, list[str]] = {"services": []}
PASSING = (BackendUnavailable, BadBackendOutput, DeadlineExceeded, DiskFailed, IdempotencyInFlight,
           RateLimited, ResourceExhausted, ShardUnreadable, StorageFull)  # fmt: skip


def services(client: Any) -> Any:
    """A call that is safe."""
    return client.services.list()


def create(client: Any) -> Any:
    """A call that its idempotency key makes safe."""
    return client.stress_tests.create(dataset="demo", classifiers=["a"], seed=0)


def cancelled(session: Session) -> Any:
    """A call that is not safe: a second one is refused."""
    run = session(lambda client: client.stress_tests.get("run-1"))
    return session(lambda _: run.cancel())


@pytest.mark.parametrize("error", PASSING)
def test_a_temporary_failure_is_retried(kind: str, error: type[CounterposeError]) -> None:
    session = Session(kind, problem(error("not now")), ok(SERVICES))
    assert session(services).services == []
    assert len(session.seen) == 2


@pytest.mark.parametrize("code", sorted(set(error_classes()) - {error.code for error in PASSING}))
def test_a_permanent_failure_is_raised_at_once(kind: str, code: str) -> None:
    session = Session(kind, problem(error_classes()[code]("for good")))
    with pytest.raises(error_classes()[code]):
        session(services)
    assert len(session.seen) == 1
    assert session.clock.pauses == []


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_bare_5xx_of_a_proxy_is_retried(kind: str, status: int) -> None:
    session = Session(kind, httpx.Response(status, text="<html>oops"), ok(SERVICES))
    assert session(services).services == []


@pytest.mark.parametrize("status", [301, 400, 403, 404, 409, 413, 422])
def test_a_bare_4xx_is_not_retried(kind: str, status: int) -> None:
    session = Session(kind, httpx.Response(status))
    with pytest.raises(CounterposeError):
        session(services)
    assert len(session.seen) == 1


@pytest.mark.parametrize(
    "failure",
    [
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("cut"),
        httpx.ReadTimeout("slow"),
        httpx.PoolTimeout("busy"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_broken_connection_is_retried(kind: str, failure: Exception) -> None:
    session = Session(kind, failure, ok(SERVICES))
    assert session(services).services == []


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_the_policy_limits_the_attempts(kind: str, attempts: int) -> None:
    answers: list[Answer] = [httpx.ConnectError("refused")] * attempts
    session = Session(kind, *answers, retries=RetryPolicy(attempts))
    with pytest.raises(BackendUnavailable, match="refused"):
        session(services)
    assert len(session.seen) == attempts
    assert len(session.clock.pauses) == attempts - 1


def test_the_last_failure_is_raised(kind: str) -> None:
    session = Session(kind, httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), retries=RetryPolicy(2))
    with pytest.raises(DeadlineExceeded):
        session(services)


@pytest.mark.fault("F17")
def test_a_lost_response_is_retried_with_the_same_idempotency_key(kind: str) -> None:
    lost: list[Answer] = [httpx.ReadError("gone"), problem(IdempotencyInFlight("still at it"))]
    session = Session(kind, *lost, run_answer())
    assert session(create).id == "run-1"
    assert len({request.headers[IDEMPOTENCY_HEADER] for request in session.seen}) == 1
    assert len({request.content for request in session.seen}) == 1


@pytest.mark.fault("B58")
@pytest.mark.parametrize(
    "failure",
    [httpx.ReadError("gone"), httpx.ReadTimeout("slow"), httpx.Response(503), httpx.Response(500)],
    ids=["lost", "late", "503", "500"],
)
def test_a_cancel_that_may_have_worked_is_not_retried(kind: str, failure: Answer) -> None:
    session = Session(kind, run_answer(), failure)
    with pytest.raises(CounterposeError):
        cancelled(session)
    assert len(session.seen) == 2


@pytest.mark.parametrize(
    "failure",
    [httpx.ConnectError("refused"), httpx.ConnectTimeout("slow"), problem(RateLimited("later"))],
    ids=["refused", "unreached", "429"],
)
def test_a_cancel_that_never_arrived_is_retried(kind: str, failure: Answer) -> None:
    session = Session(kind, run_answer(), failure, run_answer("cancelled"))
    assert cancelled(session).run.state == "cancelled"


def test_the_client_sleeps_exactly_as_long_as_retry_after(kind: str) -> None:
    busy = problem(RateLimited("later"), **{"retry-after": "3"})
    session = Session(kind, busy, ok(SERVICES))
    session(services)
    assert session.clock.pauses == [3.0]


@pytest.mark.parametrize("value", ["soon", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "1.5", "", "３"])
def test_a_retry_after_that_is_not_in_seconds_is_ignored(value: str) -> None:
    response = httpx.Response(429, headers=[(b"retry-after", value.encode())])
    assert 0.125 <= RetryPolicy().pause(1, response) <= 0.25


def test_a_retry_after_of_an_hour_is_cut_to_a_minute() -> None:
    assert RetryPolicy().pause(1, httpx.Response(429, headers={"retry-after": "3600"})) == 60.0


@pytest.mark.parametrize(("attempt", "longest"), [(1, 0.25), (50, 8.0)])
def test_pauses_grow_from_a_quarter_of_a_second_to_eight_seconds(attempt: int, longest: float) -> None:
    assert longest / 2 <= RetryPolicy().pause(attempt, None) <= longest


def test_pauses_grow_from_attempt_to_attempt(kind: str) -> None:
    session = Session(kind, *[httpx.ConnectError("refused")] * 4)
    with pytest.raises(BackendUnavailable):
        session(services)
    first, second, third = session.clock.pauses
    assert 0.125 <= first <= 0.25 <= second <= 0.5 <= third <= 1.0


def test_a_success_causes_no_pause(kind: str) -> None:
    session = Session(kind, ok(SERVICES))
    session(services)
    assert session.clock.pauses == []


def test_an_unreadable_response_is_raised_and_not_retried(kind: str) -> None:
    session = Session(kind, ok("<html>"))
    with pytest.raises(BadBackendOutput, match="ServiceList"):
        session(services)
    assert len(session.seen) == 1


def test_an_unsupported_address_is_an_invalid_request(kind: str) -> None:
    session = Session(kind, httpx.UnsupportedProtocol("no scheme"))
    with pytest.raises(InvalidRequest, match="no scheme"):
        session(services)
