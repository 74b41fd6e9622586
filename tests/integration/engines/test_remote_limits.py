"""A remote classifier answers whole in bounded time, and a function's address tells no ports apart."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.errors import CounterposeError, DeadlineExceeded, FunctionGone
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.registry import ClassifierRegistry

SECONDS = 0.4
MODEL = "/v2/models/net"
Answer = Callable[[socket.socket, threading.Event], None]


@contextmanager
def serving(answer: Answer) -> Iterator[int]:
    """Answer every connection to a port of loopback so, until the block ends."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    threads = []

    def accept() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=close_after, args=(connection,)))
            threads[-1].start()

    def close_after(connection: socket.socket) -> None:
        with connection:
            try:
                answer(connection, ended)
            except OSError:
                return

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *threads):
            thread.join()


def drip(start: bytes, more: bytes) -> Answer:
    """Answer at once, and then go on for ever with a few bytes, each sooner than any read times out."""

    def answer(connection: socket.socket, ended: threading.Event) -> None:
        connection.recv(65_536)
        connection.sendall(start)
        while not ended.wait(SECONDS / 8):
            connection.sendall(more)

    return answer


def engine(folder: Path, *hosts: str) -> ClassifiersEngine:
    options = ClassifierOptions(oip_hosts=hosts, oip_seconds=SECONDS)
    registry = ClassifierRegistry(ClassifiersSuite(), folder, BlobStore(str(folder)), options)
    return ClassifiersEngine(registry, cache_bytes=0)


def error_of(asked: ClassifiersEngine, spec: str, function: str | None = None) -> CounterposeError:
    with pytest.raises(CounterposeError) as caught:
        asked.classify(
            ClassifyRequest(classifier=spec, function=function, images=["a" * 64], classes=["sea"])
        )
    return caught.value


@pytest.mark.fault("B48", "F13")
@pytest.mark.parametrize(
    "answer",
    [
        drip(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n", b"[" * 9),
        drip(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\n[\r\n"),
        drip(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
        drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        lambda connection, ended: ended.wait(),
    ],
    ids=["a body", "chunks", "headers", "provisional answers", "nothing"],
)
def test_an_answer_that_goes_on_for_ever_ends_at_the_limit(tmp_path: Path, answer: Answer) -> None:
    with serving(answer) as port:
        host = f"127.0.0.1:{port}"
        asked, start = engine(tmp_path, host), time.monotonic()
        error = error_of(asked, f"oip:http://{host}{MODEL}")
        # Without a limit it would go on until the block ends.
        assert time.monotonic() - start < 100
    assert isinstance(error, DeadlineExceeded)
    assert "0.4 s (COUNTERPOSE_SERVICES_OIP_SECONDS)" in error.detail


def reply(answer: bytes) -> Answer:
    def send(connection: socket.socket, ended: threading.Event) -> None:
        connection.recv(65_536)
        connection.sendall(answer)

    return send


@pytest.mark.fault("B48", "T8")
def test_the_address_of_a_function_tells_open_ports_from_closed_ones_by_nothing(tmp_path: Path) -> None:
    asked, path = engine(tmp_path), "/" + "0" * 32 + "/v2/models/net/versions/1"
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed = unused.getsockname()[1]
    errors = {"closed": error_of(asked, "net", f"http://127.0.0.1:{closed}{path}")}
    for name, answer in {
        "another server": reply(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
        "a failing server": reply(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"),
        "a page": reply(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"),
        "a redirection": reply(b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"),
        "no HTTP": reply(b"-ERR unknown command\r\n"),
        "silence": lambda connection, ended: ended.wait(),
    }.items():  # fmt: skip
        with serving(answer) as port:
            errors[name] = error_of(asked, "net", f"http://127.0.0.1:{port}{path}")
    assert {(type(error), error.detail) for error in errors.values()} == {
        (FunctionGone, errors["closed"].detail)
    }
    assert str(closed) not in errors["closed"].detail
