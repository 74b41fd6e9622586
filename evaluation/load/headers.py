"""Headers without end: what the gateway keeps of them, and what it answers (H4, L-a, L-b)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

from evaluation.load.bare_gateway import MEBIBYTE, ServedGateway, served_gateway
from evaluation.load.measuring import Load, row
from evaluation.load.report import Growth, LoadRow

GROUP = "headers"
KEPT_MIB = 10.0
LINE = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
REQUESTS: dict[str, bytes] = {
    "one header of 100 KB": LINE + b"x: " + b"a" * 100_000 + b"\r\n\r\n",
    "1,000 headers": LINE + b"".join(b"x%d: y\r\n" % number for number in range(1000)) + b"\r\n",
    "an address of 100 KB": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
}
MALFORMED = (b"[::1", b"user@127.0.0.1", b"127.0.0.1/evil", b"a b", b"")


def headers(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield what 300 headers of 1 MB cost, and the answers to headers that are too large or no HTTP."""
    with served_gateway(load.folder / "headers") as gateway:
        # The first refusal loads what answers it.
        for sent in REQUESTS.values():
            _status(gateway, sent)
        gateway.forget_peak()
        rest, lines = gateway.memory(), 30 if load.quick else 300
        refused = _status(gateway, LINE + (b"x: " + b"a" * MEBIBYTE + b"\r\n") * lines)
        kept = gateway.peak() - rest
        yield row(
            GROUP, f"{lines} headers of 1 MB on one connection: memory", "MiB", [kept],
            meets=("H4",), target=KEPT_MIB,
        )  # fmt: skip
        answers = [refused, *(_status(gateway, sent) for sent in REQUESTS.values())]
        yield row(
            GROUP, "large headers that are answered with 431", "share", [answers.count(431) / len(answers)],
            meets=("H4", "B51"), target=1.0, side="at least",
        )  # fmt: skip
        hosts = [_status(gateway, b"GET / HTTP/1.1\r\nhost: " + one + b"\r\n\r\n") for one in MALFORMED]
        hosts.append(_status(gateway, b"hello\r\n\r\n"))
        yield row(
            GROUP, "malformed hosts and what is not HTTP that are answered with 400", "share",
            [hosts.count(400) / len(hosts)], meets=("L-a", "L-b"), target=1.0, side="at least",
        )  # fmt: skip


def _status(gateway: ServedGateway, sent: bytes) -> int:
    """Send these bytes as far as the gateway takes them, and return the status of its answer."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        # It may hang up in the middle, after its answer.
        with suppress(OSError):
            connection.sendall(sent)
        answer = connection.recv(65_536)
    return int(answer.split(b" ", 2)[1])
