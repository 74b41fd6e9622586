"""The transport of calls to servers of others: no proxy, no address that nobody looked at, an end in time.

A host is looked up once for each connection, and the connection goes to the address that was found: a name
that leads elsewhere at the second look-up, and a redirect to a private address, reach nothing.
"""

from __future__ import annotations

import ipaddress
import math
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpcore
import httpx

Resolve = Callable[[str, int], Sequence[str]]

_ends_at: ContextVar[float] = ContextVar("ends_at", default=math.inf)

_CARRIERS = [ipaddress.ip_network(name) for name in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")]
"""Their last 32 bits are an IPv4 address: IPv4-compatible (RFC 4291), -translated (2765), NAT64 (6052)."""
_REFUSED = [
    ipaddress.ip_network(name)
    for name in ("64:ff9b:1::/48", "3fff::/20", "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")
]
"""Which count as global, with some versions of Python: local NAT64 (RFC 8215), documentation (9637), those of
protocols, where Oracle's hosts are (6890), relays of 6to4 (7526), Azure's host."""
_UNICAST = ipaddress.ip_network("2000::/3")
"""All that is assigned of IPv6 (RFC 4291): the rest is an operator's own, as segments' (5f00::/16) are."""
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")
"""The middle of an address whose last 32 bits are an IPv4 address (RFC 5214)."""


class NotPublicError(httpx.ConnectError):
    """A host leads to a private network."""


def is_public(address: str) -> bool:
    """Return whether an address is public: not private, loopback, link-local or reserved."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    inside = getattr(parsed, "ipv4_mapped", None) or getattr(parsed, "sixtofour", None)
    carries = any(parsed in network for network in _CARRIERS)
    if carries or parsed.packed[8:12] in _ISATAP:
        inside = ipaddress.IPv4Address(parsed.packed[-4:])
    if inside is not None and not is_public(str(inside)):
        return False
    if parsed.version == 6 and inside is None and parsed not in _UNICAST:
        return False
    # Those of NAT64 are global by what they carry.
    refused = any(parsed in network for network in _REFUSED)
    return parsed.is_global and not parsed.is_multicast and not refused


def addresses_of(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order in which the system would try them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


@contextmanager
def total_deadline(seconds: float) -> Iterator[None]:
    """Give the calls of this block so many seconds together; they fail with httpx's time-outs.

    httpx times each read alone: a byte every second never ends.
    """
    before = _ends_at.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends_at.reset(before)


class Backend(httpcore.NetworkBackend):
    """Dials by ``sockets`` within `total_deadline`; where ``resolve`` is given, public addresses only."""

    def __init__(
        self, resolve: Resolve | None = None, sockets: httpcore.NetworkBackend | None = None
    ) -> None:
        self._resolve, self._sockets = resolve, sockets or httpcore.SyncBackend()

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *where: Any, **options: Any
    ) -> httpcore.NetworkStream:
        """Connect to the first address of ``host``; raises NotPublicError if one is not public."""
        if self._resolve is not None:
            try:
                found = self._resolve(host, port)
            except OSError as error:
                raise httpcore.ConnectError(f"the host {host!r} has no address") from error
            if not all(map(is_public, found)):
                # Not which: that would make this a resolver of the inner network for its tenants.
                raise NotPublicError(f"the host {host!r} has no public address; private ones are not called")
            host = found[0]
        wait = _wait(httpcore.ConnectTimeout, timeout)
        return _DeadlineStream(self._sockets.connect_tcp(host, port, wait, *where, **options))


class OutboundTransport(httpx.BaseTransport):
    """Dials by ``backend``, at most ``connections`` at once; reads no redirect's body."""

    def __init__(self, backend: Backend | None = None, connections: int = 100) -> None:
        self._pool = httpcore.ConnectionPool(
            # Without `trust_env`, because no setting allows the environment to say whom to trust.
            ssl_context=httpx.create_ssl_context(trust_env=False), network_backend=backend or Backend(),
            max_connections=connections, keepalive_expiry=5.0,
        )  # fmt: skip

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; raises httpx's errors."""
        to, headers, options = request.url, request.headers.raw, request.extensions
        url = httpcore.URL(scheme=to.raw_scheme, host=to.raw_host, port=to.port, target=to.raw_path)
        asked = httpcore.Request(
            request.method, url, headers=headers, content=request.stream, extensions=options
        )
        with _as_httpx():
            got = self._pool.handle_request(asked)
        return httpx.Response(got.status, headers=got.headers, stream=_Body(got), extensions=got.extensions)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        # Who follows a redirect would read its body whole, however long it is.
        if not 300 <= self._answer.status < 400:
            with _as_httpx():
                yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


@contextmanager
def _as_httpx() -> Iterator[None]:
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError,
            httpcore.UnsupportedProtocol) as error:  # fmt: skip
        # The two have the same names.
        kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
        raise kind(str(error)) from error


class _DeadlineStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _wait(httpcore.ReadTimeout, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # Not by the stream below, which times each of its own sends alone.
        socket, rest = self._stream.get_extra_info("socket"), memoryview(buffer)
        while rest:
            socket.settimeout(_wait(httpcore.WriteTimeout, timeout))
            try:
                rest = rest[socket.send(rest) :]
            except TimeoutError as error:
                raise httpcore.WriteTimeout(str(error)) from error
            except OSError as error:
                raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        wait = _wait(httpcore.ConnectTimeout, timeout)
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, wait))


def _wait(over: type[httpcore.TimeoutException], timeout: float | None) -> float | None:
    seconds = min(_ends_at.get() - time.monotonic(), math.inf if timeout is None else timeout)
    if seconds <= 0:
        raise over("the time of the whole exchange is over")
    return None if math.isinf(seconds) else seconds
