"""The clients of the load measurements: they count what was answered, and note each event once."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

from evaluation.load.hands import finish_items
from evaluation.load.http_clients import (
    LOST,
    Answer,
    Connection,
    Listener,
    ask_at_rate,
    ask_in_turn,
    listen,
    poll_regularly,
    request,
)
from evaluation.load.listeners import Followed
from fakes.ledgers import create_run
from fakes.served_gateway import served_gateway


def test_clients_report_every_answer_and_the_time_from_when_it_was_due(tmp_path: Path) -> None:
    with served_gateway(tmp_path) as served:
        run = request("GET", f"/v1/runs/{create_run(served.gateway.ledger)}")
        in_turn = asyncio.run(ask_in_turn(served.port, run, connections=2, seconds=0.6))
        polled = asyncio.run(poll_regularly(served.port, run, pollers=2, pause=0.05, seconds=0.6))
        paths = ["/healthz", "/nowhere"]
        asking = ask_at_rate(
            served.port, lambda number: request("GET", paths[number % 2]), rate=50, seconds=0.4, connections=2
        )
        at_rate = asyncio.run(asking)
    assert {each.status for each in in_turn + polled} == {200}
    assert json.loads(in_turn[0].body)["state"] == "queued"
    assert [each.status for each in at_rate] == [200, 404] * 10
    assert all(each.seconds > 0 for each in at_rate)


def test_a_request_that_waits_for_a_connection_is_timed_from_when_it_was_due() -> None:
    left = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(0.1)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        left.set()

    async def asked() -> list[Answer]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        asking = ask_at_rate(port, lambda _: request("GET", "/"), rate=1000, seconds=0.003, connections=1)
        answers = await asking
        await left.wait()
        server.close()
        return answers

    answers = asyncio.run(asked())
    assert [each.status for each in answers] == [200] * 3
    assert answers[2].seconds > 0.28


def test_a_broken_connection_is_an_answer_that_was_lost() -> None:
    async def asked() -> tuple[Answer, bool]:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        connection = await Connection.open(server.sockets[0].getsockname()[1])
        answer = await connection.ask(request("GET", "/"))
        server.close()
        return answer, connection.is_open

    answer, is_open = asyncio.run(asked())
    assert (answer.status, is_open) == (LOST, False)


def test_listeners_see_what_hands_commit_in_order_and_know_the_end(tmp_path: Path) -> None:
    with served_gateway(tmp_path) as served:
        ledger = served.gateway.ledger
        run = create_run(ledger, sources=1, per_source=4)

        async def followed() -> Followed:
            opened = await listen(served.port, f"/v1/runs/{run}/events", 3)
            url = f"sqlite:///{tmp_path / 'ledger.db'}"
            committed = await asyncio.to_thread(finish_items, url, run, 0.01, 10)
            while not all(each.ended for each in opened):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return Followed(committed, opened, [Answer(200, 0.5, b""), Answer(429, 0.5, b"")])

        result = asyncio.run(followed())
        numbers = [event.id for event in ledger.events.page(run, after=0)]
    assert [[number for number, _ in each.seen] for each in result.listeners] == [numbers] * 3
    assert sorted(result.committed) == numbers[1:]
    assert len(result.lags()) == 3 * 5
    assert all(0 <= lag < 60 for lag in result.lags())
    assert result.poll_ms() == [500.0, 60_000.0]


def test_an_event_that_comes_in_two_pieces_is_noted_once_when_it_is_whole() -> None:
    listener = Listener("/events")
    for piece in (b"id: 1", b"2\r\nevent: progress\r\ndata: {}\r\n", b"\r\nid: 13\r\ndata: {}\r\n\r\n"):
        listener.data_received(piece)
    assert [number for number, _ in listener.seen] == [12, 13]
