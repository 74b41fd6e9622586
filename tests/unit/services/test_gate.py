"""The gate in front of a bare ASGI application: what passes, and what becomes of answers that break."""

from __future__ import annotations

import httpx
import pytest
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faultline_core.contract.base import DEADLINE_HEADER, REQUEST_ID_HEADER, SECRET_HEADER
from faultline_core.errors import (
    BackendUnavailable,
    Cancelled,
    FaultlineError,
    InternalError,
    RateLimited,
    UnknownModel,
)
from faultline_services.app import MAX_REQUEST_ID_LENGTH, Gate, problem_response
from faultline_services.settings import ServiceSettings

SECRET = "a secret of many characters"


class Inner:
    """An application that answers 200 with its path, unless told to raise, before or after it began."""

    def __init__(self, error: Exception | None = None, *, begun: bool = False) -> None:
        self.error, self.begun = error, begun
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if self.error is not None and not self.begun:
            raise self.error
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if self.error is not None:
            raise self.error
        await send({"type": "http.response.body", "body": scope["path"].encode()})


def gate(inner: ASGIApp, **changes: object) -> Gate:
    return Gate(inner, settings=ServiceSettings.model_validate({"secret": SECRET} | changes))


async def ask(
    app: ASGIApp, path: str = "/v1/score", *, root_path: str = "", **headers: str
) -> httpx.Response:
    transport = httpx.ASGITransport(app=app, root_path=root_path)
    given = {SECRET_HEADER: SECRET} | headers
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as http:
        return await http.get(path, headers=given)


async def test_a_call_with_the_secret_passes() -> None:
    response = await ask(gate(Inner()))
    assert (response.status_code, response.text) == (200, "/v1/score")


async def test_what_is_no_http_passes_untouched() -> None:
    inner = Inner(ZeroDivisionError())

    async def nothing() -> Message:
        return {"type": "lifespan.startup"}

    async def ignore(_: Message) -> None:
        return None

    with pytest.raises(ZeroDivisionError):
        await gate(inner)({"type": "lifespan"}, nothing, ignore)
    assert inner.scopes == [{"type": "lifespan"}]


@pytest.mark.parametrize(("root_path", "path"), [("", "/healthz"), ("/scorer", "/scorer/healthz")])
async def test_health_needs_no_secret_wherever_the_service_is_mounted(root_path: str, path: str) -> None:
    response = await ask(gate(Inner()), path, root_path=root_path, **{SECRET_HEADER: "wrong"})
    assert response.status_code == 200


@pytest.mark.parametrize("path", ["/healthz/", "/healthz/../v1/score", "/v1/healthz", "//healthz"])
async def test_a_path_that_only_looks_like_health_needs_the_secret(path: str) -> None:
    inner = Inner()
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await gate(inner)(scope, receive, send)
    assert sent[0]["status"] == 401
    assert not inner.scopes


@pytest.mark.parametrize(
    ("error", "status"),
    [(UnknownModel("x"), 404), (BackendUnavailable("x"), 503), (Cancelled("x"), 409), (KeyError("x"), 500)],
)
async def test_what_the_application_raises_is_answered_as_a_problem(error: Exception, status: int) -> None:
    response = await ask(gate(Inner(error)))
    assert (response.status_code, response.json()["status"]) == (status, status)


async def test_an_answer_that_breaks_in_the_middle_is_not_continued() -> None:
    with pytest.raises(UnknownModel):
        await ask(gate(Inner(UnknownModel("too late"), begun=True)))


async def test_a_place_in_the_queue_is_given_back_after_a_failure() -> None:
    app = gate(Inner(UnknownModel("x")), max_queue=1)
    assert [(await ask(app)).status_code for _ in range(3)] == [404] * 3


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("run-7", True),
        ("x" * MAX_REQUEST_ID_LENGTH, True),
        ("x" * (MAX_REQUEST_ID_LENGTH + 1), False),
        ("", False),
        ("tab\there", False),
    ],
)
async def test_a_request_keeps_its_id_if_it_is_fit_for_a_log(given: str, kept: bool) -> None:
    inner = Inner()
    await ask(gate(inner), **{REQUEST_ID_HEADER: given})
    noted: str = inner.scopes[0]["state"]["request_id"]
    assert (noted == given) is kept
    assert noted


async def test_two_requests_without_an_id_get_two() -> None:
    inner = Inner()
    app = gate(inner)
    for _ in range(2):
        await ask(app)
    first, second = (scope["state"]["request_id"] for scope in inner.scopes)
    assert first != second


@pytest.mark.parametrize(("given", "seconds"), [("5", 5.0), ("0.5", 0.5), ("1e9", 600.0)])
def test_a_deadline_is_capped_by_the_services_own(given: str, seconds: float) -> None:
    request = Request({"type": "http", "headers": [(DEADLINE_HEADER.encode(), given.encode())]})
    assert gate(Inner())._seconds(request) == seconds


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RateLimited("x"), True),
        (BackendUnavailable("x"), True),
        (UnknownModel("x"), False),
        (InternalError("x"), False),
    ],
)
def test_only_a_problem_that_passes_says_when_to_come_back(error: FaultlineError, told: bool) -> None:
    assert ("retry-after" in problem_response(error, "id").headers) is told
