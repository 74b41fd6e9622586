"""What goes out: one transport, whose calls end in time, hold few bytes and ask no proxy."""

from __future__ import annotations

import ast
import gzip
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpcore
import httpx
import pytest

import counterpose_gateway
import counterpose_services
from counterpose_core.errors import BadBackendOutput
from counterpose_gateway.imports import guarded_https
from counterpose_gateway.imports.guarded_https import HttpsFiles
from counterpose_http.outbound import Backend, OutboundTransport, total_deadline
from counterpose_services.outbound.calls import AnswerLimits, BoundedCalls, outbound_client

ROOT = Path(__file__).parents[3]
PUBLIC = "93.184.216.34"
URL = "https://images.example/a.tar"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\nconnection: close\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
PROVISIONAL = b"HTTP/1.1 100 Continue\r\n\r\n"
WAIT = 0.02


class Peer(httpcore.NetworkStream):
    """Takes what it is sent, and answers with the next pieces; counts them."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self.read_so_far = pieces, 0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self.read_so_far += 1
        return next(self._pieces)

    def close(self) -> None:
        pass

    def start_tls(self, *_: object, **__: object) -> httpcore.NetworkStream:
        return self

    def get_extra_info(self, info: str) -> Any:
        return self if info == "socket" else None

    def settimeout(self, seconds: float | None) -> None:
        pass

    def send(self, content: memoryview) -> int:
        return len(content)


class Peers(httpcore.NetworkBackend):
    """Gives each connection the next peer."""

    def __init__(self, *answers: Iterator[bytes]) -> None:
        self.peers, self.dialled = [Peer(each) for each in answers], list[tuple[str, int]]()

    def connect_tcp(self, host: str, port: int, *_: object, **__: object) -> httpcore.NetworkStream:
        self.dialled.append((host, port))
        return self.peers[len(self.dialled) - 1]


def backend(peers: Peers) -> Backend:
    return Backend(lambda host, port: [PUBLIC], peers)


def dripping(start: bytes, more: bytes) -> Iterator[bytes]:
    """Go on with a few bytes, each sooner than any read times out; 200 are far more than a test waits for."""
    yield start
    for _ in range(200):
        time.sleep(WAIT)
        yield more


def without_end(start: bytes) -> Iterator[bytes]:
    yield start
    for _ in range(500):
        yield b"x" * 65_536


@pytest.mark.fault("B47")
@pytest.mark.parametrize(
    "answers",
    [
        lambda: [dripping(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n")],
        lambda: [dripping(PROVISIONAL, PROVISIONAL)],
        lambda: [iter([HEAD]), dripping(HEAD, b"x")],
        lambda: [iter([HEAD]), dripping(CHUNKED, b"1\r\nx\r\n")],
    ],
    ids=["headers", "provisional answers", "a body", "chunks"],
)  # fmt: skip
def test_an_import_waits_for_no_server_that_sends_a_byte_now_and_then(
    monkeypatch: pytest.MonkeyPatch, answers: Callable[[], list[Iterator[bytes]]]
) -> None:
    monkeypatch.setattr(guarded_https, "SECONDS", 10 * WAIT)
    peers = Peers(*answers())
    with pytest.raises(OSError, match="time of the whole exchange is over"):
        HttpsFiles(backend(peers)).open(URL).read(100_000)
    assert max(each.read_so_far for each in peers.peers) < 100


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
def test_the_body_of_a_redirect_is_read_by_nobody(status: str) -> None:
    first = without_end(f"HTTP/1.1 {status}\r\nlocation: {URL}\r\n\r\n".encode())
    short = HEAD.replace(b"1000000", b"10")
    peers = Peers(iter([short]), first, iter([short + b"0123456789"]))
    assert HttpsFiles(backend(peers)).open(URL).read() == b"0123456789"
    assert peers.peers[1].read_so_far < 3


@pytest.mark.fault("B48")
@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "deflate, gzip", "br", "zstd"])
def test_an_answer_that_nobody_asked_to_compress_is_refused_before_it_grows(encoding: str) -> None:
    content = gzip.compress(gzip.compress(bytes(100 << 20), 9), 9)
    transport = httpx.MockTransport(
        lambda _: httpx.Response(
            200, headers={"content-encoding": encoding}, stream=httpx.ByteStream(content)
        )
    )
    limits = AnswerLimits(most_bytes=1 << 20)
    calls = BoundedCalls(outbound_client(limits, transport=transport), limits, name="net", prefix="OIP")
    tracemalloc.start()
    try:
        with pytest.raises(BadBackendOutput, match="is compressed; turn its compression off"):
            calls.send("GET", "http://models.example/")
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_no_proxy_of_the_environment_sees_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    peers = Peers(iter([HEAD]), iter([HEAD]))
    HttpsFiles(backend(peers)).stamp(URL)
    with httpx.Client(transport=OutboundTransport(backend(peers))) as client:
        client.head("http://models.example:81/a;b?c")
    assert peers.dialled == [(PUBLIC, 443), (PUBLIC, 81)]


@pytest.mark.parametrize(
    "error",
    [
        httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.LocalProtocolError, httpcore.PoolTimeout,
        httpcore.ReadError, httpcore.ReadTimeout, httpcore.RemoteProtocolError, httpcore.UnsupportedProtocol,
        httpcore.WriteError, httpcore.WriteTimeout,
    ],
)  # fmt: skip
def test_an_error_of_the_transport_is_one_of_httpx(error: type[Exception]) -> None:
    def failing() -> Iterator[bytes]:
        yield from ()
        raise error("told")

    with (
        httpx.Client(transport=OutboundTransport(backend(Peers(failing())))) as client,
        pytest.raises(getattr(httpx, error.__name__), match="told"),
    ):
        client.get("http://models.example/")


def test_calls_of_a_block_have_its_seconds_together() -> None:
    with (
        httpx.Client(transport=OutboundTransport(backend(Peers(iter([HEAD]))))) as client,
        total_deadline(0.0),
        pytest.raises(httpx.ConnectTimeout, match="whole exchange"),
    ):
        client.get("http://models.example/")


def sources() -> Iterator[tuple[str, ast.AST]]:
    for package in (counterpose_gateway, counterpose_services):
        for file in Path(str(package.__file__)).parent.parent.rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                yield f"{file.name}:{getattr(node, 'lineno', 0)}", node


def test_every_client_of_the_product_goes_without_proxies_and_is_built_by_public_arguments() -> None:
    found, calls = list[str](), 0
    for where, node in sources():
        if isinstance(node, ast.Attribute) and node.attr in ("_network_backend", "_transport_for_url"):
            found.append(f"{where} reaches into httpx")
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("httpx."):
            continue
        name = ast.unparse(node.func)
        if name in ("httpx.HTTPTransport", "httpx.AsyncHTTPTransport"):
            found.append(f"{where} makes a transport of its own")
        if name in ("httpx.Client", "httpx.AsyncClient"):
            calls += 1
            if "trust_env=False" not in ast.unparse(node):
                found.append(f"{where} asks the environment")
        # The hub's own client, whose way this one tries, goes by the proxies of the environment.
        if name in (
            "httpx.get",
            "httpx.head",
            "httpx.post",
            "httpx.stream",
        ) and "ENDPOINT" not in ast.unparse(node):
            found.append(f"{where} calls without a client")
    assert found == []
    assert calls == 5
