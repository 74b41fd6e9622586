"""A receiver of webhooks on loopback: answers each message as it is told to, and keeps what it got."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answering = Callable[[BaseHTTPRequestHandler, threading.Event], None]
"""Answers one message; the event is set when the receiver closes."""


@dataclass(frozen=True)
class Received:
    """One message as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class WebhookReceiver:
    """What arrived, and how the next messages are answered; the last answer is repeated."""

    answers: list[Answering]
    port: int = 0
    received: list[Received] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """The address of a webhook."""
        return f"http://127.0.0.1:{self.port}/hook"


def status(code: int, **headers: str) -> Answering:
    """Answer with a status."""

    def answer(handler: BaseHTTPRequestHandler, _: threading.Event) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


def silence(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    """Never answer."""
    closing.wait()


def drip(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    """Send a header without end, a byte at a time."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
    while not closing.wait(0.05):
        try:
            handler.wfile.write(b"a")
            handler.wfile.flush()
        except OSError:
            return


@contextmanager
def webhook_receiver(*answers: Answering) -> Iterator[WebhookReceiver]:
    """Receive during the block."""
    closing = threading.Event()
    receiver = WebhookReceiver(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            told = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, told, body))
            receiver.arrived.set()
            answer = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
            answer(self, closing)

        def do_GET(self) -> None:
            receiver.received.append(Received(self.path, {}, b""))
            status(200)(self, closing)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_port
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    serving.start()
    try:
        yield receiver
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        serving.join()
