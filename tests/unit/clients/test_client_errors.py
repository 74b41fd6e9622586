"""Whatever goes wrong reaches the caller as the class that the gateway raised, with the request's id."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from counterpose import CounterposeError, RetryPolicy
from counterpose._retries import failure_of
from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, REQUEST_ID_HEADER
from counterpose_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    RateLimited,
    Unauthorized,
    UnknownModel,
    error_classes,
)
from fakes.sdk import Session, ok, problem

ONCE = RetryPolicy(attempts=1)


def services(client: Any) -> Any:
    """Any call will do."""
    return client.services.list()


def raised(session: Session) -> CounterposeError:
    """What the call raises."""
    with pytest.raises(CounterposeError) as caught:
        session(services)
    return caught.value


@pytest.mark.parametrize("code", sorted(error_classes()))
def test_every_error_code_is_raised_as_its_class_with_the_request_id(kind: str, code: str) -> None:
    sent = error_classes()[code]("what was wrong", pointer="/classifiers/0")
    session = Session(kind, problem(sent, request_id="r-17"), retries=ONCE)
    error = raised(session)
    assert type(error) is error_classes()[code]
    assert (error.detail, error.pointer, error.request_id) == ("what was wrong", "/classifiers/0", "r-17")


@pytest.mark.parametrize(
    ("status", "kind_of_error"),
    [
        (401, Unauthorized),
        (404, NotFound),
        (413, PayloadTooLarge),
        (429, RateLimited),
        (418, InvalidRequest),
        (500, BackendUnavailable),
        (503, BackendUnavailable),
    ],
)
def test_a_bare_status_is_raised_as_its_class(
    kind: str, status: int, kind_of_error: type[CounterposeError]
) -> None:
    answer = httpx.Response(status, text="<html>", headers={REQUEST_ID_HEADER: "r-2"})
    error = raised(Session(kind, answer, retries=ONCE))
    assert type(error) is kind_of_error
    assert error.request_id == "r-2"
    assert str(status) in error.detail


def test_an_unreadable_problem_document_is_bad_output(kind: str) -> None:
    answer = httpx.Response(422, text="{}", headers={"content-type": PROBLEM_MEDIA_TYPE})
    assert type(raised(Session(kind, answer, retries=ONCE))) is BadBackendOutput


def test_an_unknown_error_code_is_still_a_counterpose_error(kind: str) -> None:
    answer = problem(UnknownModel("gone"))
    text = answer.text.replace("unknown-model", "moved-to-mars")
    later = httpx.Response(410, text=text, headers={"content-type": PROBLEM_MEDIA_TYPE})
    error = raised(Session(kind, later, retries=ONCE))
    assert type(error) is InternalError
    assert error.detail == "gone"


def test_an_error_without_a_response_has_no_request_id(kind: str) -> None:
    assert raised(Session(kind, httpx.ConnectError("refused"), retries=ONCE)).request_id is None


def descendants(root: type[httpx.RequestError]) -> list[type[httpx.RequestError]]:
    """All classes below one."""
    return [each for child in root.__subclasses__() for each in (child, *descendants(child))]


@pytest.mark.parametrize("below", descendants(httpx.RequestError))
def test_every_httpx_error_has_a_counterpart(below: type[httpx.RequestError]) -> None:
    request = httpx.Request("GET", "http://gateway.test/v1/services?after=secret")
    error = failure_of(below("what happened", request=request))
    assert isinstance(error, BackendUnavailable | DeadlineExceeded | BadBackendOutput | InvalidRequest)
    assert "gateway.test" in error.detail
    assert "secret" not in error.detail


def test_a_refused_connection_says_how_to_start_counterpose(kind: str) -> None:
    detail = raised(Session(kind, httpx.ConnectError("[Errno 111]"), retries=ONCE)).detail
    assert (
        "[Errno 111]. Is Counterpose running? Start it with `counterpose up`, or set COUNTERPOSE_URL"
        in detail
    )


def test_a_connection_lost_later_gives_no_such_advice(kind: str) -> None:
    assert "counterpose up" not in raised(Session(kind, httpx.ReadError("reset"), retries=ONCE)).detail


@pytest.mark.parametrize(
    ("below", "ours"),
    [
        (httpx.ReadTimeout, DeadlineExceeded),
        (httpx.ConnectError, BackendUnavailable),
        (httpx.DecodingError, BadBackendOutput),
        (httpx.UnsupportedProtocol, InvalidRequest),
    ],
)
def test_connection_failures_are_raised_as_counterpose_errors(
    kind: str, below: type[httpx.RequestError], ours: type[CounterposeError]
) -> None:
    assert type(raised(Session(kind, below("what happened"), retries=ONCE))) is ours


def test_an_unexpected_response_names_the_path_and_the_type(kind: str) -> None:
    error = raised(Session(kind, ok({"services": "all well"}), retries=ONCE))
    assert type(error) is BadBackendOutput
    assert "/v1/services" in error.detail
    assert "ServiceList" in error.detail
