"""The guard around a bare ASGI application: admission, deadlines and concurrency."""

from __future__ import annotations

import httpx
import pytest
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpose_core.contract.base import DEADLINE_HEADER, SECRET_HEADER
from counterpose_core.contract.spending import SPENT_HEADER, Spent
from counterpose_core.errors import Unauthorized, UnknownModel
from counterpose_http import ProblemMiddleware
from counterpose_services.http import RequestGuard
from counterpose_services.openai_api.metering import note
from counterpose_services.settings import ServiceSettings
from fakes.lifespan import start_up

SECRET = "a secret of many characters"


class Inner:
    """An application that answers 200 with its path, or raises if configured to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if self.error is not None:
            raise self.error
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})


def guard(inner: ASGIApp, **changes: object) -> RequestGuard:
    given = ServiceSettings.model_validate({"secret": SECRET} | changes)
    return RequestGuard(inner, settings=given, service="scorer")


async def ask(
    app: ASGIApp, path: str = "/v1/score", *, root_path: str = "", **headers: str
) -> httpx.Response:
    answering = ProblemMiddleware(app, server="the scorer")
    transport = httpx.ASGITransport(app=answering, root_path=root_path)
    given = {SECRET_HEADER: SECRET} | headers
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as http:
        return await http.get(path, headers=given)


async def test_a_call_with_the_secret_passes() -> None:
    response = await ask(guard(Inner()))
    assert (response.status_code, response.text) == (200, "/v1/score")


async def test_non_http_messages_pass_through() -> None:
    inner = Inner(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await start_up(guard(inner))
    assert inner.scopes == [{"type": "lifespan"}]


@pytest.mark.parametrize(("root_path", "path"), [("", "/healthz"), ("/scorer", "/scorer/healthz")])
async def test_health_needs_no_secret_under_any_mount_path(root_path: str, path: str) -> None:
    response = await ask(guard(Inner()), path, root_path=root_path, **{SECRET_HEADER: "wrong"})
    assert response.status_code == 200


@pytest.mark.parametrize("path", ["/healthz/", "/healthz/../v1/score", "/v1/healthz", "//healthz"])
async def test_a_path_resembling_health_needs_the_secret(path: str) -> None:
    inner = Inner()
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError("nothing is to be sent")

    with pytest.raises(Unauthorized):
        await guard(inner)(scope, receive, send)
    assert not inner.scopes


async def test_a_failed_call_frees_its_queue_slot() -> None:
    app = guard(Inner(UnknownModel("x")), max_queue=1)
    assert [(await ask(app)).status_code for _ in range(3)] == [404] * 3


@pytest.mark.parametrize(("given", "seconds"), [("5", 5.0), ("0.5", 0.5), ("1e9", 600.0)])
def test_a_deadline_is_capped_by_the_service_limit(given: str, seconds: float) -> None:
    request = Request({"type": "http", "headers": [(DEADLINE_HEADER.encode(), given.encode())]})
    assert guard(Inner())._seconds(request) == seconds


@pytest.mark.parametrize("status", [200, 503])
async def test_an_answer_tells_what_others_were_asked_for_even_if_it_failed(status: int) -> None:
    async def asking(scope: Scope, receive: Receive, send: Send) -> None:
        note(Spent(calls=2, images=1))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    for _ in range(2):
        told = (await ask(guard(asking))).headers[SPENT_HEADER]
        assert Spent.model_validate_json(told) == Spent(calls=2, images=1)
