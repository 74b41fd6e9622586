"""``client.with_options``: another timeout or number of retries for a few calls, on the same connections."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import pytest

from counterpose import BackendUnavailable, InvalidRequest, RetryPolicy
from counterpose._sync.client import Client
from fakes.sdk import Session, ok, run_answer

SERVICES = ok({"services": []})
BUSY = httpx.Response(503, text="busy")


def timeout_of(request: httpx.Request) -> float:
    """Seconds that a request may be silent."""
    return float(request.extensions["timeout"]["read"])


def one_run(options: dict[str, float], client: Any) -> Any:
    """Get a run with these options."""
    return client.with_options(**options).runs.get("run-1")


def test_the_timeout_applies_to_the_new_client_alone(kind: str) -> None:
    session = Session(kind, SERVICES, SERVICES)
    session.client._http.timeout = httpx.Timeout(7.0)
    session(lambda client: client.with_options(timeout=5).services.list())
    session(lambda client: client.services.list())
    first, second = (timeout_of(request) for request in session.seen)
    assert first == 5.0
    assert second == 7.0


def test_slow_calls_keep_their_time_unless_more_is_given(kind: str) -> None:
    page = httpx.Response(200, text="<html>")
    session = Session(kind, run_answer(), page, run_answer(), page)
    for options in ({"timeout": 5.0}, {"timeout": 900.0}):
        run = session(partial(one_run, options))
        session(lambda _: run.report())  # noqa: B023 - called at once
    assert [timeout_of(request) for request in session.seen] == [5.0, 300.0, 900.0, 900.0]


def test_no_retries_means_one_attempt(kind: str) -> None:
    session = Session(kind, BUSY, SERVICES)
    with pytest.raises(BackendUnavailable):
        session(lambda client: client.with_options(max_retries=0).services.list())
    assert len(session.seen) == 1


def test_retries_are_counted_after_the_first_attempt(kind: str) -> None:
    session = Session(kind, BUSY, BUSY, SERVICES)
    session(lambda client: client.with_options(max_retries=2).services.list())
    assert len(session.seen) == 3


def test_what_is_not_given_stays_as_it_is(kind: str) -> None:
    client = Session(kind, retries=RetryPolicy(attempts=7)).client
    once = client.with_options(max_retries=1)
    assert (once.retries.attempts, once.retries.patient_attempts) == (2, 20)
    both = once.with_options(timeout=3)
    assert (both.retries.attempts, both._timeout) == (2, 3)
    assert client.retries.attempts == 7


def test_resources_used_before_do_not_send_for_the_new_client(kind: str) -> None:
    client = Session(kind).client
    assert client.services is not client.with_options(timeout=1).services
    assert client.with_options(timeout=1)._http is client._http


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": float("nan")}, {"max_retries": -1}])
def test_an_impossible_option_is_named(options: dict[str, float]) -> None:
    (name,) = options
    with pytest.raises(InvalidRequest, match=name):
        Client().with_options(**options)  # type: ignore[arg-type]  # by design
