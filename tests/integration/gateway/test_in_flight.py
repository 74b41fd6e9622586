"""How much is served at once: one request or listener more is refused quickly, health never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event
from starlette.types import Message, Receive, Scope, Send

from counterpose_core.errors import RateLimited
from counterpose_gateway.access.key_ring import Holder
from counterpose_gateway.http.bounds import UNKNOWN_BODIES_OF_ONE, Room
from counterpose_gateway.http.in_flight import InFlight, Turns
from counterpose_gateway.http.request_head import tell_caller
from counterpose_gateway.progress import following
from counterpose_gateway.settings import GatewaySettings
from fakes.gateway import URL, FakeGateway, fake_gateway
from fakes.ledgers import create_run
from fakes.processes import poll_until

RUNS = "/v1/stress-tests"
JSON = {"content-type": "application/json"}


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeGateway]:
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.02)
    async with fake_gateway(tmp_path, max_requests_in_flight=2, max_listeners=3) as opened:
        yield opened


def room_of(gateway: FakeGateway) -> Room:
    """How many requests and listeners the gateway has."""
    room: Room = gateway.app.state.room
    return room


def refused(answer: httpx.Response, setting: str, limit: int) -> bool:
    """Whether an answer refuses one more and says what the limit is."""
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["code"], problem["retryable"]) == (429, "rate-limited", True)
    assert int(answer.headers["retry-after"]) > 0
    assert problem["request_id"] == answer.headers["x-request-id"]
    return setting in problem["detail"] and f" {limit} " in problem["detail"]


async def test_a_listener_too_many_is_refused_and_requests_and_health_go_on(gateway: FakeGateway) -> None:
    run = create_run(gateway.ledger)
    wait = f"/v1/runs/{run}/wait?timeout=60"
    listening = [asyncio.create_task(gateway.http.get(wait)) for _ in range(2)]
    listening.append(asyncio.create_task(gateway.http.get(f"/v1/runs/{run}/events")))
    await poll_until(lambda: room_of(gateway).listeners.is_full)
    for path in (wait, f"/v1/runs/{run}/events"):
        assert refused(await gateway.http.get(path), "COUNTERPOSE_MAX_LISTENERS", 3)
    assert (await gateway.http.get(f"/v1/runs/{run}")).status_code == 200
    assert (await gateway.http.get("/healthz")).status_code == 200
    gateway.ledger.runs.cancel(run)
    assert {answer.status_code for answer in await asyncio.gather(*listening)} == {200}
    # Their places are free again.
    assert (await gateway.http.get(wait)).json()["state"] == "cancelled"


async def test_a_request_too_many_is_refused_before_its_body_is_read(gateway: FakeGateway) -> None:
    read: list[bytes] = []

    async def unread_body() -> AsyncIterator[bytes]:
        read.append(b'{"name": "more"}')
        yield read[-1]

    places = room_of(gateway).requests
    places.enter()
    places.enter()
    answer = await gateway.http.post("/v1/datasets", content=unread_body(), headers=JSON)
    assert read == []
    assert refused(answer, "COUNTERPOSE_MAX_REQUESTS_IN_FLIGHT", 2)
    assert (await gateway.http.get("/healthz")).status_code == 200
    assert (await gateway.http.get("/readyz")).status_code == 200
    places.leave()
    assert (await gateway.http.get("/v1/datasets")).status_code == 200


async def test_a_body_that_is_awaited_takes_no_place_and_a_caller_may_have_as_many_as_places(
    gateway: FakeGateway,
) -> None:
    more = asyncio.Event()

    async def slow_body(name: str) -> AsyncIterator[bytes]:
        yield b'{"name": '
        await more.wait()
        yield f'"{name}"}}'.encode()

    def post(name: str) -> Coroutine[object, object, httpx.Response]:
        return gateway.http.post("/v1/datasets", content=slow_body(name), headers=JSON)

    slow = [asyncio.create_task(post(name)) for name in ("one", "two")]
    await poll_until(lambda: room_of(gateway).awaited.now == 2)
    assert (await gateway.http.get("/v1/datasets")).status_code == 200, "no place is taken yet"
    too_many = (await post("three")).json()
    assert (too_many["code"], too_many["retryable"]) == ("rate-limited", True)
    assert "waits for as many bodies of requests as it may" in too_many["detail"]
    more.set()
    assert {answer.status_code for answer in await asyncio.gather(*slow)} == {201}
    assert room_of(gateway).awaited.now == 0


@pytest.mark.fault("B66")
async def test_without_a_key_only_the_login_waits_for_a_body_and_an_address_has_few(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"key="
        await asyncio.Event().wait()

    form = {"content-type": "application/x-www-form-urlencoded", "origin": URL}
    settings: dict[str, Any] = {"max_requests_in_flight": 2, "api_keys": ["a-key-of-32-letters-and-digits"]}
    async with fake_gateway(tmp_path, **settings) as opened:
        http, room = opened.http, room_of(opened)
        held = [
            asyncio.create_task(http.post("/ui/login", content=endless(), headers=form))
            for _ in range(UNKNOWN_BODIES_OF_ONE)
        ]
        await poll_until(lambda: room.unknown.now == UNKNOWN_BODIES_OF_ONE)
        answer = await http.post("/ui/login", content=endless(), headers=form)
        assert (answer.status_code, answer.json()["code"]) == (429, "rate-limited")
        assert "without a key" in answer.json()["detail"]
        assert not room.requests.is_full, "and those with a key have all places"
        for path in ("/", "/ui/static/pages.css"):
            refusal = await http.request("GET", path, content=endless(), headers={"authorization": ""})
            assert refusal.status_code == 413
            assert refusal.json()["detail"] == f"{path} takes no body; send none"
        for each in held:
            each.cancel()
        await asyncio.gather(*held, return_exceptions=True)


@pytest.mark.fault("B66")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 413), ("POST", "/readyz", 413), ("HEAD", "/", 413), ("PUT", "/ui/login", 413),
        ("GET", "/ui/login", 413), ("OPTIONS", "/v1/runs", 401), ("POST", "/nowhere", 401),
        ("POST", "/ui/logout", 401), ("POST", "//ui/login", 401), ("POST", "/UI/LOGIN", 401),
        ("POST", "/ui/login/", 401), ("GET", "/v1/artifacts/a.png?signature=x&key-id=y&expires=1", 401),
    ],
)  # fmt: skip
async def test_without_a_key_nothing_but_the_login_reads_of_a_body(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"key="
        await asyncio.Event().wait()

    form = {"content-type": "application/x-www-form-urlencoded", "origin": URL}
    async with fake_gateway(tmp_path, api_keys=["a-key-of-32-letters-and-digits"]) as opened:
        async with asyncio.timeout(60):
            answer = await opened.http.request(method, path, content=endless(), headers=form)
        assert answer.status_code == status
        room = room_of(opened)
        assert (room.requests.now, room.unknown.now, room.awaited.now) == (0, 0, 0)


async def test_a_request_that_fails_or_is_cut_off_gives_its_place_back() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await scope["work"]()

    async def fail() -> None:
        raise ValueError

    async def hang() -> None:
        await asyncio.Event().wait()

    bounded = InFlight(app, room=Room(GatewaySettings(max_requests_in_flight=1, max_listeners=1)))

    async def ask(work: Callable[[], object], path: str = "/v1/runs") -> None:
        scope: dict[str, Any] = {"type": "http", "path": path, "work": work}
        tell_caller(scope, None)
        await bounded(scope, _nothing, _nothing)  # type: ignore[arg-type]  # neither is called

    for _ in range(3):
        with pytest.raises(ValueError):
            await ask(fail)
    hanging = asyncio.create_task(ask(hang))
    await asyncio.sleep(0)
    with pytest.raises(RateLimited, match="serves 1 requests at once"):
        await ask(fail)
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    with pytest.raises(ValueError):
        await ask(fail)


async def test_submissions_take_turns_in_their_order_and_hold_nothing_else() -> None:
    working: list[int] = []
    done: dict[int, asyncio.Event] = {number: asyncio.Event() for number in range(5)}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        working.append(scope["number"])
        if scope["number"] in done:
            await done[scope["number"]].wait()

    ask = asking(Turns(app, at_once=2))
    submitted = [asyncio.create_task(ask(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert working == [0, 1]
    await ask(10, "GET", "/v1/runs/a")
    await ask(11, "POST", "/v1/runs/a/cancel")
    assert working == [0, 1, 10, 11]
    for number in (1, 0, 2, 3, 4):
        done[number].set()
        await asyncio.sleep(0.001)
    await asyncio.gather(*submitted)
    assert working == [0, 1, 10, 11, 2, 3, 4]


@pytest.mark.fault("T21")
async def test_a_tenant_that_submits_much_leaves_others_their_turns() -> None:
    working: list[int] = []
    ends = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        working.append(scope["number"])
        await ends.wait()

    ask = asking(Turns(app, at_once=1, most=4, seconds=0.01))
    much = [asyncio.create_task(ask(number, tenant="acme")) for number in range(20)]
    await poll_until(lambda: len(working) == 3)
    await asyncio.sleep(0.05)
    assert working == [0, 1, 2], "three of four are all that a tenant may have begun"
    few = [asyncio.create_task(ask(100 + number, tenant="globex")) for number in range(2)]
    await poll_until(lambda: len(working) == 4)
    assert working[3] == 100
    ends.set()
    await asyncio.gather(*much, *few)
    assert working.index(101) <= 6, "then it is one of one tenant, one of the other"


async def test_a_submission_takes_five_transactions_and_a_refused_one_none(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 2)
    begun: list[bool] = []
    event.listen(gateway.ledger._session.database.engine, "begin", lambda connection: begun.append(True))
    body = {"dataset": "demo", "classifiers": ["steady"], "seed": 1}
    # The digest of a dataset that changed is made when it is first asked for.
    await gateway.http.get("/v1/datasets/demo")
    begun.clear()
    assert (await gateway.http.post(RUNS, json=body)).status_code == 202
    # The dataset, how many images it has, a page of them, and the run, which is answered as it was written;
    # and the tenant's quota, once.
    assert len(begun) == 5
    places = room_of(gateway).requests
    places.enter()
    places.enter()
    before = len(begun)
    assert refused(await gateway.http.post(RUNS, json=body), "COUNTERPOSE_MAX_REQUESTS_IN_FLIGHT", 2)
    assert len(begun) == before


async def test_a_submission_that_waits_for_a_service_lets_the_next_begin() -> None:
    working, answered = list[int](), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        working.append(scope["number"])
        if scope["number"] < 3:
            await answered.wait()

    ask = asking(Turns(app, at_once=1, most=3, seconds=0.05))
    submitted = [asyncio.create_task(ask(number)) for number in range(5)]
    # One turn of the loop: no timer ends in it, however slow this machine is.
    await asyncio.sleep(0)
    assert working == [0]
    await poll_until(lambda: len(working) == 3)
    await asyncio.sleep(0.15)
    # No more than may have begun, however long they take.
    assert working == [0, 1, 2]
    answered.set()
    await asyncio.gather(*submitted)
    assert working == [0, 1, 2, 3, 4]
    # Those that took longer than a turn gave it back once: there is one turn again, not four.
    answered.clear()
    again = [asyncio.create_task(ask(number)) for number in range(2)]
    await asyncio.sleep(0)
    assert working[5:] == [0]
    answered.set()
    await asyncio.gather(*again)


def asking(turns: Turns) -> Callable[..., Coroutine[None, None, None]]:
    """Return a function that sends a request of a number through the turns."""

    async def ask(number: int, method: str = "POST", path: str = RUNS, tenant: str | None = None) -> None:
        scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "number": number}
        tell_caller(scope, None if tenant is None else Holder("k", ("read", "write"), tenant))
        await turns(scope, _nothing, _nothing)  # type: ignore[arg-type]  # neither is called

    return ask


async def _nothing(message: Message | None = None) -> Message:
    return {}
