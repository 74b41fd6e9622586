"""The shared middleware around a bare ASGI application: ids, headers, and exceptions as problems."""

from __future__ import annotations

import logging

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from counterpose_core.contract.base import REQUEST_ID_HEADER
from counterpose_core.errors import BackendUnavailable, Cancelled, UnknownModel
from counterpose_http import MAX_REQUEST_ID_LENGTH, ProblemMiddleware
from fakes.lifespan import start_up


class Inner:
    """An application that answers 200, or raises before or after its response started."""

    def __init__(self, error: Exception | None = None, *, started: bool = False) -> None:
        self.error, self.started = error, started
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if self.error is not None and not self.started:
            raise self.error
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if self.error is not None:
            raise self.error
        await send({"type": "http.response.body", "body": b"fine"})


async def ask(inner: Inner, request_id: str | None = None, *, add_request_id: bool = True) -> httpx.Response:
    app = ProblemMiddleware(inner, server="the scorer", add_request_id=add_request_id)
    transport = httpx.ASGITransport(app=app)
    given = {} if request_id is None else {REQUEST_ID_HEADER: request_id}
    headers = httpx.Headers(given, encoding="latin-1")
    async with httpx.AsyncClient(transport=transport, base_url="http://server.test") as http:
        return await http.get("/v1/score", headers=headers)


@pytest.mark.parametrize(
    ("error", "status"),
    [(UnknownModel("x"), 404), (BackendUnavailable("x"), 503), (Cancelled("x"), 409), (KeyError("x"), 500)],
)
async def test_an_exception_is_answered_as_a_problem(error: Exception, status: int) -> None:
    response = await ask(Inner(error))
    assert (response.status_code, response.json()["status"]) == (status, status)


async def test_a_response_that_fails_after_its_start_is_aborted() -> None:
    with pytest.raises(UnknownModel):
        await ask(Inner(UnknownModel("too late"), started=True))


async def test_an_unexpected_exception_is_logged_under_the_request_id_and_not_shown(
    log_records: list[logging.LogRecord],
) -> None:
    response = await ask(Inner(ZeroDivisionError("a secret")), "find-me")
    assert "a secret" not in response.text
    assert response.json()["detail"].startswith("the scorer failed on request 'find-me'")
    [record] = [record for record in log_records if record.levelno == logging.ERROR]
    assert "find-me" in record.getMessage()
    assert record.exc_info is not None


async def test_a_lifespan_message_passes_untouched() -> None:
    inner = Inner(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await start_up(ProblemMiddleware(inner, server="the scorer"))
    assert inner.scopes == [{"type": "lifespan"}]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("run-7", True),
        ("with space", True),
        ("x" * MAX_REQUEST_ID_LENGTH, True),
        ("x" * (MAX_REQUEST_ID_LENGTH + 1), False),
        ("", False),
        ("tab\there", False),
        ("caf\xe9", False),
    ],
)
async def test_a_request_keeps_its_id_if_it_is_safe_to_log(given: str, kept: bool) -> None:
    inner = Inner()
    response = await ask(inner, given)
    assigned: str = inner.scopes[0]["state"]["request_id"]
    assert (assigned == given) is kept
    assert response.headers[REQUEST_ID_HEADER] == assigned != ""


async def test_two_requests_without_an_id_get_different_ids() -> None:
    inner = Inner()
    for _ in range(2):
        await ask(inner)
    first, second = (scope["state"]["request_id"] for scope in inner.scopes)
    assert first != second


async def test_behind_serve_the_id_stays_in_the_problem_and_out_of_the_headers() -> None:
    response = await ask(Inner(UnknownModel("x")), "run-7", add_request_id=False)
    assert response.json()["request_id"] == "run-7"
    assert REQUEST_ID_HEADER not in response.headers


async def test_every_response_forbids_guessing_its_media_type() -> None:
    for inner in (Inner(), Inner(UnknownModel("x")), Inner(KeyError("x"))):
        assert (await ask(inner)).headers["x-content-type-options"] == "nosniff"
