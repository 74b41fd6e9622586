"""Answers in one write: head and body together, in order, and never a head that stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from counterpose_gateway.http.connection import JOINED_BYTES, LEAST_READ, UNREAD_SECONDS, OneWrite

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Wire(asyncio.Transport):
    """Notes each write, and when it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.done = ""
        self.waits = 0

    def get_write_buffer_size(self) -> int:
        """Return how much the client has not taken."""
        return self.waits

    def write(self, data: Any) -> None:
        """Note a write; after an end it is lost, as on a socket."""
        if not self.done:
            self.written.append(bytes(data))

    def close(self) -> None:
        """Note the end."""
        self.done = "closed"

    def write_eof(self) -> None:
        """Note the end of the writing."""
        self.done = "ended"

    def abort(self) -> None:
        """Note the break."""
        self.done = "broken"

    def is_closing(self) -> bool:
        """Return whether there was an end."""
        return bool(self.done)


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def joined(wire: Wire) -> OneWrite:
    return OneWrite(wire, asyncio.get_running_loop())


async def test_head_and_body_are_one_write(wire: Wire, joined: OneWrite) -> None:
    for body in (b"ok", memoryview(b"ok"), b""):
        joined.write(HEAD)
        joined.write(body)
    assert wire.written == [HEAD + b"ok", HEAD + b"ok", HEAD]


async def test_a_head_whose_body_is_late_goes_alone(wire: Wire, joined: OneWrite) -> None:
    joined.write(HEAD)
    assert wire.written == []
    await asyncio.sleep(0)
    assert wire.written == [HEAD]
    joined.write(b"ok")
    assert wire.written == [HEAD, b"ok"]


async def test_a_long_body_is_not_copied_and_comes_after_its_head(wire: Wire, joined: OneWrite) -> None:
    body = b"x" * (JOINED_BYTES + 1)
    joined.write(HEAD)
    joined.write(body)
    assert wire.written == [HEAD, body]


async def test_two_heads_keep_their_order(wire: Wire, joined: OneWrite) -> None:
    joined.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    joined.write(HEAD)
    joined.write(b"ok")
    await asyncio.sleep(0)
    assert b"".join(wire.written) == b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"ok"


@pytest.mark.parametrize(("end", "written"), [("close", [HEAD]), ("write_eof", [HEAD]), ("abort", [])])
async def test_an_end_sends_what_was_written_and_a_break_does_not(
    wire: Wire, joined: OneWrite, end: str, written: list[bytes]
) -> None:
    joined.write(HEAD)
    getattr(joined, end)()
    assert wire.done
    await asyncio.sleep(0)
    assert wire.written == written
    assert joined.is_closing()


class Looks:
    """A loop whose timers a test lets end."""

    def __init__(self) -> None:
        self.next: list[Callable[[], object]] = []

    def call_soon(self, work: Callable[[], object]) -> None:
        """Nothing waits for its body here."""

    def call_later(self, seconds: float, look: Callable[[], object]) -> object:
        """Note what is due after the time in which something must be read."""
        assert seconds == UNREAD_SECONDS
        self.next.append(look)
        return object()

    def pass_by(self) -> None:
        """Let that time pass."""
        due, self.next = self.next, []
        for look in due:
            look()


def watched(wire: Wire) -> tuple[OneWrite, Looks]:
    looks = Looks()
    loop: Any = looks
    return OneWrite(wire, loop), looks


def test_a_client_that_leaves_its_answer_unread_is_cut_off(wire: Wire) -> None:
    answer, looks = watched(wire)
    wire.waits = 3 * LEAST_READ
    answer.write(bytes(4 * LEAST_READ))
    # It takes some, so it may go on; then less, though more is written.
    wire.waits -= LEAST_READ
    looks.pass_by()
    assert wire.done == ""
    answer.write(b"more")
    wire.waits += 4 - LEAST_READ + 1
    looks.pass_by()
    assert (wire.done, looks.next) == ("broken", [])


def test_a_client_that_takes_all_stays_however_long_it_is_silent(wire: Wire) -> None:
    answer, looks = watched(wire)
    wire.waits = 5
    answer.write(b"12345")
    wire.waits = 0
    looks.pass_by()
    answer.write(b"an event")
    assert (wire.done, looks.next) == ("", [])
