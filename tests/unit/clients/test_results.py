"""Results come whole or not at all: a broken stream is taken up, a wrong checksum is said."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import httpx
import pytest

from counterpose_core.errors import BackendUnavailable, BadBackendOutput
from fakes.sdk import Answer, BrokenStream, Session, run_answer

REF = "a" * 64
PATH = "/v1/runs/run-1/results"
GONE = httpx.ConnectError("refused")


def line(ordinal: int, label: str = "bus") -> str:
    """An item that has ended."""
    item = {
        "id": f"i{ordinal}", "ordinal": ordinal, "kind": "edit", "item_group": "s", "source_image": REF,
        "label": label, "state": "done",
    }  # fmt: skip
    return json.dumps(item, ensure_ascii=False) + "\n"


def trailer(*lines: str, **told: Any) -> str:
    """The line that closes these."""
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    return json.dumps({"lines": len(lines), "sha256": digest, "complete": True} | told) + "\n"


def whole(*lines: str) -> httpx.Response:
    """A stream that ends as it should."""
    return httpx.Response(200, text="".join(lines) + trailer(*lines))


def broken(*lines: str) -> httpx.Response:
    """A stream that breaks in the middle of a line."""
    return httpx.Response(200, stream=BrokenStream("".join(lines).encode() + b'{"id": "i'))


def read(kind: str, *answers: Answer) -> tuple[Session, list[int]]:
    """The ordinals that a reader gets from these answers."""
    session = Session(kind, run_answer("completed", 3), *answers)
    run = session(lambda client: client.stress_tests.get("run-1"))
    return session, [item.ordinal for item in session(lambda _: run.results())]


def test_every_item_is_read_in_order_with_one_request(kind: str) -> None:
    session, ordinals = read(kind, whole(line(0), line(2), line(3)))
    assert ordinals == [0, 2, 3]
    assert [request.url.path for request in session.seen[1:]] == [PATH]
    assert "from" not in session.seen[1].url.params


@pytest.mark.fault("F18")
def test_a_broken_stream_continues_after_its_last_item(kind: str) -> None:
    session, ordinals = read(
        kind, broken(line(0), line(2)), run_answer("completed", 3), whole(line(3), line(4))
    )
    assert ordinals == [0, 2, 3, 4]
    assert [request.url.params.get("from") for request in session.seen[1:]] == [None, None, "3"]


def test_a_stream_that_ends_without_its_trailer_is_broken_too(kind: str) -> None:
    cut = httpx.Response(200, text=line(0))
    _, ordinals = read(kind, cut, run_answer("completed", 3), whole(line(1)))
    assert ordinals == [0, 1]


@pytest.mark.fault("F3")
def test_the_client_waits_for_a_gateway_that_restarts(kind: str) -> None:
    session, ordinals = read(kind, GONE, *[GONE] * 12, run_answer("completed", 3), whole(line(0)))
    assert ordinals == [0]
    assert sum(session.clock.pauses) > 30


def test_a_download_fails_after_several_empty_streams(kind: str) -> None:
    looks = [broken(), run_answer("completed", 3), broken(), run_answer("completed", 3), broken()]
    with pytest.raises(BackendUnavailable):
        read(kind, *looks)


@pytest.mark.parametrize("lie", [{"lines": 3}, {"sha256": "0" * 64}])
def test_lines_that_do_not_match_the_trailer_are_an_error(kind: str, lie: dict[str, Any]) -> None:
    lines = (line(0), line(1))
    text = "".join(lines) + trailer(*lines, **lie)
    with pytest.raises(BadBackendOutput, match="checksum"):
        read(kind, httpx.Response(200, text=text))


def test_a_label_may_hold_characters_that_other_readers_take_for_a_line_end(kind: str) -> None:
    assert read(kind, whole(line(0, "bus\u2028stop"), line(1)))[1] == [0, 1]
