"""A caller that disconnects stops its own work at the next diffusion step and no other work."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from starlette.types import ASGIApp, Message

from counterpose_core.contract.base import DEADLINE_HEADER, RUN_HEADER, SECRET_HEADER
from counterpose_services.call_context import CALLER
from counterpose_services.call_context import Caller as Whose
from counterpose_services.editor.deployment import CALLS, EditorDeployment
from counterpose_services.http import answer_while_connected
from counterpose_services.scorer.deployment import ScorerDeployment
from counterpose_services.settings import ServiceSettings
from fakes.engines import FakeEditor, FakeScorer
from fakes.processes import look_until

SECRET = "a secret of many characters"
LONG = 60.0
"""A wait longer than any test: a test that ends shows that nothing waited for it."""
IMAGE = "0" * 64
PRESET = {"steps": 3, "self_replace": [0.5]}
EDIT = {"image": IMAGE, "caption": "a boat", "edited_caption": "a tram"}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/reconstruct": {"items": [{"image": IMAGE, "caption": "a boat"}], "preset": PRESET},
    "/v1/edit": {"items": [EDIT], "preset": PRESET},
    "/v1/generate": {"items": [{"prompt": "a boat", "seed": 1}], "steps": 3},
    "/v1/learn-tokens": {
        "items": [{"class_name": "boat", "images": [IMAGE]}],
        "preset": {"steps": 9},
        "link_steps": 3,
        "seed": 1,
    },
}
SCORE = {"items": [{"original": IMAGE, "edited": IMAGE, "caption": "a boat", "edited_caption": "a tram"}]}


class Caller:
    """One request over bare ASGI, whose client can hang up in the middle."""

    def __init__(self, app: ASGIApp, path: str, body: object, **headers: str) -> None:
        given = {SECRET_HEADER: SECRET, "content-type": "application/json"} | headers
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        self._coming: asyncio.Queue[Message] = asyncio.Queue()
        # The body comes in two pieces, as a large one does.
        content = json.dumps(body).encode()
        self._coming.put_nowait({"type": "http.request", "body": content[:5], "more_body": True})
        self._coming.put_nowait({"type": "http.request", "body": content[5:], "more_body": False})
        self.sent: list[Message] = []
        self.task = asyncio.ensure_future(app(scope, self._coming.get, self._send))

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    def hang_up(self) -> None:
        self._coming.put_nowait({"type": "http.disconnect"})

    async def answer(self) -> tuple[int, dict[str, Any]]:
        async with asyncio.timeout(LONG):
            await self.task
        body = b"".join(message.get("body", b"") for message in self.sent[1:])
        return self.sent[0]["status"], json.loads(body)


@pytest.fixture
def engine() -> FakeEditor:
    held = FakeEditor()
    held.go_on.clear()
    return held


@pytest.fixture
def app(engine: FakeEditor) -> ASGIApp:
    settings = ServiceSettings.model_validate({"secret": SECRET, "max_queue": 2})
    return EditorDeployment(settings, engine=engine).__serve_build_asgi_app__()


async def settle() -> None:
    """Run every task as far as possible without the engine."""
    for _ in range(200):
        await asyncio.sleep(0)


@pytest.mark.fault("F18")
@pytest.mark.parametrize("path", BODIES)
async def test_a_client_disconnect_stops_the_engine(path: str, app: ASGIApp, engine: FakeEditor) -> None:
    caller = Caller(app, path, BODIES[path])
    await asyncio.to_thread(engine.started.wait, LONG)
    caller.hang_up()
    assert await asyncio.to_thread(engine.ended.wait, LONG)
    status, problem = await caller.answer()
    assert (status, problem["code"]) == (409, "cancelled")


@pytest.mark.fault("F19")
async def test_a_cancelled_call_stops_the_engine(app: ASGIApp, engine: FakeEditor) -> None:
    caller = Caller(app, "/v1/edit", BODIES["/v1/edit"])
    await asyncio.to_thread(engine.started.wait, LONG)
    caller.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller.task
    assert await asyncio.to_thread(engine.ended.wait, LONG)


async def test_a_deadline_stops_the_engine(app: ASGIApp, engine: FakeEditor) -> None:
    caller = Caller(app, "/v1/edit", BODIES["/v1/edit"], **{DEADLINE_HEADER: "0.05"})
    status, problem = await caller.answer()
    assert (status, problem["code"]) == (504, "deadline-exceeded")
    assert await asyncio.to_thread(engine.ended.wait, LONG)


async def test_the_next_caller_is_served_in_full_after_a_disconnect(app: ASGIApp, engine: FakeEditor) -> None:
    leaving = Caller(app, "/v1/edit", BODIES["/v1/edit"])
    await asyncio.to_thread(engine.started.wait, LONG)
    staying = Caller(app, "/v1/edit", BODIES["/v1/edit"])
    await settle()
    leaving.hang_up()
    assert await asyncio.to_thread(engine.ended.wait, LONG)
    engine.go_on.set()
    status, answer = await staying.answer()
    assert status == 200
    assert answer["outcomes"][0]["value"]["variants"][0]["strength"] == 0.5


async def test_a_caller_who_leaves_the_queue_never_reaches_the_engine(engine: FakeEditor) -> None:
    settings = ServiceSettings.model_validate({"secret": SECRET, "max_queue": CALLS + 1})
    app = EditorDeployment(settings, engine=engine).__serve_build_asgi_app__()
    staying = [Caller(app, "/v1/edit", BODIES["/v1/edit"]) for _ in range(CALLS)]
    await asyncio.to_thread(look_until, lambda: engine.begun == CALLS)
    leaving = Caller(app, "/v1/edit", BODIES["/v1/edit"])
    await settle()
    leaving.hang_up()
    assert (await leaving.answer())[0] == 409
    engine.go_on.set()
    assert [(await each.answer())[0] for each in staying] == [200] * CALLS
    assert engine.begun == CALLS


async def test_a_caller_who_disconnects_frees_a_place_in_the_queue(app: ASGIApp, engine: FakeEditor) -> None:
    callers = [Caller(app, "/v1/edit", BODIES["/v1/edit"]) for _ in range(2)]
    await asyncio.to_thread(engine.started.wait, LONG)
    await settle()
    for caller in callers:
        caller.hang_up()
        await caller.answer()
    engine.go_on.set()
    assert (await Caller(app, "/v1/edit", BODIES["/v1/edit"]).answer())[0] == 200


async def test_a_shared_batch_continues_after_one_caller_leaves() -> None:
    engine = FakeScorer()
    engine.go_on.clear()
    settings = ServiceSettings.model_validate({"secret": SECRET, "batch_wait_s": 0.0})
    app = ScorerDeployment(settings, engine=engine).__serve_build_asgi_app__()
    first = Caller(app, "/v1/score", SCORE)
    await asyncio.to_thread(engine.started.wait, LONG)
    leaving, staying = Caller(app, "/v1/score", SCORE), Caller(app, "/v1/score", SCORE)
    await settle()
    leaving.hang_up()
    assert (await leaving.answer())[0] == 409
    engine.go_on.set()
    assert [(await caller.answer())[0] for caller in (first, staying)] == [200, 200]
    assert engine.batches == [1, 1]


async def test_an_application_error_propagates_while_the_client_is_connected() -> None:
    async def failing(scope: object, receive: object, send: object) -> None:
        raise ZeroDivisionError

    async def silent() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def ignore(_: Message) -> None:
        return None

    with pytest.raises(ZeroDivisionError):
        await answer_while_connected(failing, {"type": "http"}, silent, ignore)


async def test_an_engine_knows_whose_call_it_works_on_and_until_when(
    app: ASGIApp, engine: FakeEditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = list[Whose]()
    monkeypatch.setattr(engine, "_walk", lambda steps, cancelled: known.append(CALLER.get()))
    headers = {RUN_HEADER: "r" * 100, DEADLINE_HEADER: "30"}
    assert (await Caller(app, "/v1/edit", BODIES["/v1/edit"], **headers).answer())[0] == 200
    assert known[0].run == "r" * 64
    assert known[0].deadline == pytest.approx(time.monotonic() + 30, abs=5)
