"""Headers are bounded before anything else looks at them, and what is not HTTP is refused by name."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from counterpose_gateway.http.connection import HeaderLimits
from fakes.connections import Connection, connected, raw_refusal, uvicorn_protocol
from fakes.gateway import fake_gateway
from fakes.problems import problem

LINE = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
LIMITS = HeaderLimits(most_bytes=16_384, most_fields=100)


async def counting(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that reads the whole body and answers its size."""
    size, more = 0, True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        size, more = size + len(message["body"]), message["more_body"]
    answer = f"[{size}]".encode()
    headers = [(b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def unreached(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that must not be asked."""
    raise AssertionError("the request was to be refused before")


async def pour(connection: Connection, sent: bytes) -> bytes:
    """Send everything, as far as the server takes it, and return all that it answers."""
    reader, writer = connection
    writer.write(sent)
    return await asyncio.wait_for(reader.read(), 100)


@pytest.mark.fault("B51")
@pytest.mark.parametrize(
    ("sent", "setting"),
    [
        (LINE + b"x: " + b"a" * 100_000 + b"\r\n\r\n", "COUNTERPOSE_MAX_HEADER_BYTES"),
        (LINE + b"x: " + b"a" * 20_000_000, "COUNTERPOSE_MAX_HEADER_BYTES"),
        (LINE + b"".join(b"x%d: y\r\n" % n for n in range(1000)) + b"\r\n", "COUNTERPOSE_MAX_HEADERS"),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n", "COUNTERPOSE_MAX_HEADER_BYTES"),
        (LINE + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: " + b"a" * 1_000_000,
         "COUNTERPOSE_MAX_HEADER_BYTES"),
    ],
    ids=["a long header", "a header without end", "many headers", "a long address", "a long trailer"],
)  # fmt: skip
async def test_large_headers_are_refused_by_their_setting_and_not_kept(sent: bytes, setting: str) -> None:
    async with connected(unreached if b"chunked" not in sent else counting, LIMITS) as connection:
        found = raw_refusal(await pour(connection, sent), 431)
    assert (found.code, setting in found.detail) == ("headers-too-large", True)


async def test_headers_within_the_limits_and_a_large_body_arrive_whole() -> None:
    head = LINE.replace(b"GET", b"POST") + b"x: " + b"a" * 15_000 + b"\r\ncontent-length: 1000000\r\n\r\n"
    async with connected(counting, LIMITS) as (reader, writer):
        for _ in range(3):
            writer.write(head + b"b" * 1_000_000)
            assert (await reader.readuntil(b"[1000000]")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.fault("B51")
@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost localhost\r\n\r\n",
        LINE + b"content-length: 1\r\ncontent-length: 2\r\n\r\n",
        LINE + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        LINE + b"transfer-encoding: chunked\r\n\r\nno size\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
    ],
    ids=["words", "no colon", "two lengths", "length and chunks", "a broken chunk", "a tunnel", "TLS"],
)
async def test_what_is_not_http_gets_a_problem_document_and_no_line_in_the_log(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with connected(waiting, LIMITS) as connection:
            assert raw_refusal(await pour(connection, sent), 400).code == "malformed-request"
    assert [record.getMessage() for record in caplog.records if record.name != "asyncio"] == []


async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that waits for the end of a body that never comes."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def test_a_broken_second_request_does_not_disturb_the_first_answer() -> None:
    async with connected(counting, LIMITS) as connection:
        answer = await pour(connection, LINE + b"\r\n" + b"nonsense\r\n\r\n")
    assert (answer[:13], answer[-3:]) == (b"HTTP/1.1 200 ", b"[0]")


async def test_a_request_to_upgrade_is_answered_as_if_it_had_not_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for protocol in (b"websocket", b"h2c"):
        async with connected(counting, LIMITS) as connection:
            asked = LINE + b"connection: upgrade\r\nupgrade: " + protocol + b"\r\n\r\n"
            assert (await pour(connection, asked)).endswith(b"[0]")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.fault("B51")
async def test_nothing_is_kept_of_what_a_refused_client_goes_on_sending() -> None:
    protocol = uvicorn_protocol(unreached, LIMITS)()
    line = Silent()
    protocol.connection_made(line)
    for _ in range(100):
        protocol.data_received(b"x" * 1000 if line.refused else LINE + b"x: " + b"a" * 20_000)
    assert line.answers == 1
    protocol.connection_lost(None)


class Silent(asyncio.Transport):
    """A connection that counts what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0
        self.refused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Count the answer."""
        self.answers, self.refused = self.answers + 1, True

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def can_write_eof(self) -> bool:
        """Whether one side can be closed alone."""
        return False

    def is_closing(self) -> bool:
        """Whether it is closing."""
        return False

    def close(self) -> None:
        """Close."""


POST = LINE.replace(b"GET", b"POST")
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


@pytest.mark.fault("B51")
@pytest.mark.parametrize(
    "chunks",
    [
        b"1;x=" + b"a" * 30_000 + b"\r\nb\r\n0\r\n\r\n",
        b"ea60\r\n" + b"b" * 60_000 + b"\r\n1;" + b"a" * 19_000 + b"\r\nb\r\n0\r\n\r\n",
        b"1;" + b"a" * 11_000 + b"\r\nb\r\n1;" + b"a" * 11_000 + b"\r\nb\r\n0\r\n\r\n",
        100 * (b"1;" + b"a" * 1_000 + b"\r\nb\r\n") + b"0\r\n\r\n",
        b"1\r\nb\r\n0;" + b"a" * 19_000 + b"\r\n\r\n",
        b"1\r\nb\r\n0\r\nx: " + b"a" * 17_000 + b"\r\n\r\n",
    ],
    ids=[
        "one",
        "behind much data",
        "two that are too long together",
        "a hundred",
        "of the last chunk",
        "a trailer",
    ],
)
async def test_what_chunks_say_beside_their_data_is_bounded_as_headers_are(chunks: bytes) -> None:
    async with connected(counting, LIMITS) as connection:
        answer = await pour(connection, CHUNKED + chunks)
    assert raw_refusal(answer, 431).code == "headers-too-large"


async def test_bodies_in_many_small_chunks_arrive_whole() -> None:
    for size, times in ((1, 100_000), (7, 10_000), (3_000, 300)):
        chunk = b"%x\r\n" % size + b"b" * size + b"\r\n"
        async with connected(counting, LIMITS) as (reader, writer):
            for _ in range(2):
                writer.write(CHUNKED + times * chunk + b"0\r\nx: y\r\n\r\n")
                assert (await reader.readuntil(b"[%d]" % (size * times))).startswith(b"HTTP/1.1 200 ")


CODINGS = {
    "two lines": b"transfer-encoding: identity\r\ntransfer-encoding: chunked",
    "two lines of the same": b"transfer-encoding: chunked\r\ntransfer-encoding: chunked",
    "two lines, chunked first": b"transfer-encoding: chunked\r\ntransfer-encoding: identity",
    "a coding before": b"transfer-encoding: gzip, chunked",
    "a coding that is none": b"transfer-encoding: xchunked",
    "chunked twice": b"transfer-encoding: chunked, chunked",
    "a quoted one": b'transfer-encoding: "chunked"',
    "a vertical tab": b"transfer-encoding: \x0bchunked",
    "a space before the colon": b"transfer-encoding : chunked",
    "a folded line": b"transfer-encoding:\r\n chunked",
    "a length beside": b"content-length: 4\r\ntransfer-encoding: chunked",
    "two lengths of the same": b"content-length: 4\r\ncontent-length: 4",
    "a list of lengths": b"content-length: 4, 4",
}


@pytest.mark.fault("B51")
@pytest.mark.parametrize("coding", CODINGS)
async def test_a_body_whose_end_another_server_may_see_elsewhere_is_refused(coding: str) -> None:
    async with connected(waiting, LIMITS) as connection:
        answer = await pour(connection, POST + CODINGS[coding] + b"\r\n\r\n1\r\nb\r\n0\r\n\r\n")
    assert raw_refusal(answer, 400).code == "malformed-request"


@pytest.mark.fault("B51")
async def test_chunks_of_an_older_http_are_refused() -> None:
    async with connected(waiting, LIMITS) as connection:
        answer = await pour(connection, CHUNKED.replace(b"/1.1", b"/1.0") + b"1\r\nb\r\n0\r\n\r\n")
    assert raw_refusal(answer, 400).code == "malformed-request"


TARGETS = {
    "an encoded slash": b"/v1%2fruns",
    "in capitals": b"/v1%2Fruns",
    "in front": b"/%2fv1/runs",
    "of a page": b"/ui%2flogin",
    "of health": b"/healthz%2f",
    "before a shift": b"/v1/runs/a%2fb/shift-thresholds/c",
    "another host": b"http://evil.example/v1/runs",
    "another port": b"http://localhost:81/v1/runs",
    "a user": b"http://localhost@evil.example/v1/runs",
    "our host as a user's": b"http://evil.example@localhost/v1/runs",
    "another scheme": b"ftp://localhost/v1/runs",
    "no host": b"http:///v1/runs",
    "a host alone": b"http://evil.example",
    "another host and a query": b"http://evil.example?localhost",
}


@pytest.mark.fault("B51")
@pytest.mark.parametrize("target", TARGETS)
async def test_a_target_that_a_proxy_may_take_for_another_is_refused(target: str) -> None:
    async with connected(unreached, LIMITS) as connection:
        answer = await pour(connection, LINE.replace(b"/healthz", TARGETS[target]) + b"\r\n")
    assert raw_refusal(answer, 400).code == "malformed-request"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/v1/runs/a/shift-thresholds/snow%2Fice%3F", "/v1/runs/a/shift-thresholds/snow/ice?"),
        (b"/v1/datasets/a%20b?x=%2f", "/v1/datasets/a b"),
        (b"http://localhost/v1/runs", "/v1/runs"),
        (b"HTTP://LOCALHOST/v1/runs", "/v1/runs"),
    ],
)
async def test_a_target_that_is_read_one_way_is_served(target: bytes, path: str) -> None:
    seen: list[str] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["path"])
        await counting(scope, receive, send)

    async with connected(noting, LIMITS) as (reader, writer):
        writer.write(LINE.replace(b"/healthz", target) + b"\r\n")
        await reader.readuntil(b"[0]")
    assert seen == [path]


@pytest.mark.fault("B51", "T5")
@pytest.mark.parametrize(
    "trailer", [b"authorization: Bearer k", b"host: evil.example", b"cookie: a=b", b"x-request-id: z"]
)
async def test_a_trailer_is_no_header(trailer: bytes) -> None:
    seen: list[list[bytes]] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append([name for name, _ in scope["headers"]])
        await counting(scope, receive, send)

    async with connected(noting, LIMITS) as (reader, writer):
        writer.write(CHUNKED + b"1\r\nb\r\n0\r\n" + trailer + b"\r\n\r\n")
        await reader.readuntil(b"[1]")
    assert seen == [[b"host", b"transfer-encoding"]]


HOSTS = {
    "an open bracket": "[::1",
    "no address in brackets": "[localhost]",
    "a user": "user@127.0.0.1",
    "a path": "127.0.0.1/evil",
    "a query": "127.0.0.1?x",
    "a port of words": "127.0.0.1:http",
    "a space": "local host",
    "a backslash": "127.0.0.1\\x",
    "nothing": "",
}


@pytest.mark.fault("B51")
@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
@pytest.mark.parametrize("path", ["/healthz", "/v1/datasets", "/ui/login"])
async def test_a_malformed_host_is_a_malformed_request(tmp_path: Path, host: str, path: str) -> None:
    async with fake_gateway(tmp_path) as gateway:
        answer = await gateway.http.get(path, headers={"host": host})
        assert "Host" in problem(answer, 400, "malformed-request").detail


@pytest.mark.fault("B51")
async def test_two_hosts_are_refused_and_one_of_any_form_is_taken(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        two = [("host", "127.0.0.1"), ("host", "evil.example")]
        problem(await gateway.http.get("/v1/datasets", headers=two), 400, "malformed-request")
        for host in ("127.0.0.1:8080", "LOCALHOST", "[::1]:80", "localhost:"):
            assert (await gateway.http.get("/v1/datasets", headers={"host": host})).status_code == 200
        # Well formed, and not this machine: without keys, still refused as before.
        problem(
            await gateway.http.get("/v1/datasets", headers={"host": "evil.example"}), 422, "invalid-request"
        )
