"""The gateway's edge: what it lets through, what it adds to responses, and what it keeps secret."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from counterpose_gateway.http.edge import Edge
from counterpose_gateway.ledger.datasets.datasets import Datasets
from counterpose_gateway.settings import GatewaySettings
from fakes.gateway import fake_gateway
from fakes.problems import problem

KEYS = ("a-key-of-enough-characters", "another-key-of-some-length")


async def nothing_more() -> Message:
    """A connection on which nothing arrives."""
    return {"type": "http.disconnect"}


def edge_before(application: object) -> Edge:
    """The edge in front of a bare application."""
    return Edge(application, settings=GatewaySettings())  # type: ignore[arg-type]  # ASGI


async def test_non_http_messages_pass_through() -> None:
    seen: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def send(message: Message) -> None:
        raise AssertionError("nothing is to be sent")

    await edge_before(application)({"type": "lifespan"}, nothing_more, send)
    assert seen == ["lifespan"]


async def test_the_application_receives_the_whole_body_then_the_disconnect() -> None:
    heard: list[Message] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        heard.extend([await receive(), await receive()])

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    parts: list[Message] = [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"cd", "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return parts.pop(0)

    async def send(message: Message) -> None:
        raise AssertionError("nothing is to be sent")

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    await edge_before(application)(scope, receive, send)
    assert heard == [
        {"type": "http.request", "body": b"abcd", "more_body": False},
        {"type": "http.disconnect"},
    ]


async def test_every_response_forbids_content_sniffing(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        for path in ("/healthz", "/v1/datasets", "/nowhere", "/metrics"):
            answer = await gateway.http.get(path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-request-id"]


@pytest.mark.fault("T5")
@pytest.mark.parametrize("key", KEYS)
async def test_any_of_several_keys_is_accepted(tmp_path: Path, key: str) -> None:
    async with fake_gateway(tmp_path, api_keys=KEYS) as gateway:
        headers = {"authorization": f"Bearer {key}"}
        assert (await gateway.http.get("/v1/datasets", headers=headers)).status_code == 200


@pytest.mark.fault("B52")
async def test_a_key_in_the_address_is_not_accepted(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, api_keys=KEYS) as gateway:
        for query in (f"?api_key={KEYS[0]}", f"?authorization=Bearer%20{KEYS[0]}"):
            problem(await gateway.http.get(f"/v1/datasets{query}"), 401, "unauthorized")


@pytest.mark.fault("T5")
async def test_without_a_key_missing_and_existing_addresses_look_the_same(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, api_keys=KEYS) as gateway:
        answers = [await gateway.http.get(path) for path in ("/v1/datasets", "/v1/nothing", "/docs")]
    assert {answer.status_code for answer in answers} == {401}
    bodies = [answer.json() | {"request_id": None} for answer in answers]
    assert bodies[0] == bodies[1] == bodies[2]


async def test_an_unexpected_error_is_logged_with_its_request_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(datasets: Datasets) -> None:
        raise RuntimeError("the disk of host db-7 is gone")

    monkeypatch.setattr(Datasets, "all", fail)
    async with fake_gateway(tmp_path) as gateway:
        answer = await gateway.http.get("/v1/datasets", headers={"x-request-id": "find-me"})
    problem(answer, 500, "internal-error")
    [logged] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "find-me" in logged.getMessage()
    assert logged.exc_info is not None
    assert "db-7" not in answer.text


async def test_a_body_of_exactly_the_limit_is_accepted(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, max_body_bytes=2000) as gateway:
        headers = {"content-type": "application/json"}
        answer = await gateway.http.post(
            "/v1/datasets", content=b" " * 1985 + b'{"name":"demo"}', headers=headers
        )
        assert answer.status_code == 201
