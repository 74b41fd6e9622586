"""Files over HTTPS from public addresses alone: each connection dials an address that was looked at.

A host is looked up once for each connection, and the connection goes to the address that was found: a name
that leads elsewhere at the second look-up, and a redirect to a private address, reach nothing.
"""

from __future__ import annotations

import io
import ipaddress
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import httpcore
import httpx

from counterpose_core.errors import ImportRefused, ShardUnreadable

SECONDS = 60.0
"""The longest wait for one answer or one piece of it."""
MOST_REDIRECTS = 5
BUFFER = 1 << 20
"""Bytes that are read ahead."""

Resolve = Callable[[str, int], Sequence[str]]


def addresses_of(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order in which the system would try them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


_CARRIERS = [ipaddress.ip_network(name) for name in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")]
"""Their last 32 bits are an IPv4 address: IPv4-compatible (RFC 4291), -translated (2765), NAT64 (6052)."""
_REFUSED = [ipaddress.ip_network(name) for name in ("64:ff9b:1::/48", "fec0::/10", "168.63.129.16/32")]
"""An operator's own, which count as global: local NAT64 (RFC 8215), site-local, Azure's host."""


def is_public(address: str) -> bool:
    """Return whether an address is public: not private, loopback, link-local or reserved."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    inside = getattr(parsed, "ipv4_mapped", None) or getattr(parsed, "sixtofour", None)
    if any(parsed in network for network in _CARRIERS):
        inside = ipaddress.IPv4Address(parsed.packed[-4:])
    if inside is not None and not is_public(str(inside)):
        return False
    # Those of NAT64 are global by what they carry.
    refused = any(parsed in network for network in _REFUSED)
    return parsed.is_global and not parsed.is_multicast and not refused


class PublicBackend(httpcore.NetworkBackend):
    """Dials public addresses only."""

    def __init__(
        self, resolve: Resolve = addresses_of, sockets: httpcore.NetworkBackend | None = None
    ) -> None:
        self._resolve = resolve
        self._sockets = sockets or httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of ``host``; raises ImportRefused if any of them is not public."""
        try:
            found = self._resolve(host, port)
        except OSError as error:
            raise httpcore.ConnectError(f"the host {host!r} has no address") from error
        if not all(map(is_public, found)):
            # Not which: that would make this a resolver of the inner network for its tenants.
            raise ImportRefused(f"the host {host!r} has no public address; private networks are never read")
        return self._sockets.connect_tcp(found[0], port, timeout, local_address, socket_options)


def transport_over(backend: httpcore.NetworkBackend) -> httpx.HTTPTransport:
    """Return a transport that dials by ``backend`` alone."""
    transport = httpx.HTTPTransport(trust_env=False)
    # A newer httpx that has no such backend must fail here: without it every address would be dialled.
    if not isinstance(transport._pool._network_backend, httpcore.NetworkBackend):
        raise TypeError("httpx has no network backend to guard; install the version in requirements.lock")
    transport._pool._network_backend = backend
    return transport


def public_client(backend: httpcore.NetworkBackend | None = None) -> httpx.Client:
    """Return a client that reaches public addresses only."""
    return httpx.Client(
        transport=transport_over(backend or PublicBackend()), trust_env=False, timeout=SECONDS,
        follow_redirects=True, max_redirects=MOST_REDIRECTS, event_hooks={"request": [_require_https]},
        headers={"accept-encoding": "identity"},
    )  # fmt: skip


def _require_https(request: httpx.Request) -> None:
    if request.url.scheme != "https":
        raise ImportRefused(
            f"{str(request.url.copy_with(query=None))!r} is not https; nothing else is followed"
        )


class HttpsFiles:
    """The files of the web, read by ranges."""

    def __init__(self, client: httpx.Client | None = None) -> None:
        self._client = client or public_client()

    def stamp(self, url: str) -> str:
        """Return size and version of a file; raises FileNotFoundError or OSError."""
        answer = self._asked("HEAD", url)
        told = answer.headers
        return " ".join(
            (told.get("content-length", "?"), told.get("etag", ""), told.get("last-modified", ""))
        )

    def open(self, url: str) -> io.BufferedReader:
        """Open a file; raises FileNotFoundError or OSError."""
        length = self._asked("HEAD", url).headers.get("content-length", "")
        if not length.isdigit():
            raise OSError(f"the server of {url!r} does not say how long the file is")
        return io.BufferedReader(_Ranges(self._client, url, int(length)), buffer_size=BUFFER)

    def _asked(self, method: str, url: str) -> httpx.Response:
        try:
            answer = self._client.request(method, url)
        except httpx.HTTPError as error:
            raise OSError(f"{url!r} cannot be read: {error}") from error
        _require_found(answer, url)
        return answer


class _Ranges(io.RawIOBase):
    """A file that is read on from where it is; a jump asks for another range."""

    def __init__(self, client: httpx.Client, url: str, length: int) -> None:
        self._client, self._url, self._length = client, url, length
        self._at = 0
        self._answer: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._rest = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        if start + offset != self._at:
            self._drop()
            self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._length:
            return 0
        try:
            if self._answer is None:
                self._ask()
            while not self._rest:
                self._rest = next(self._pieces, b"")
                if not self._rest:
                    raise OSError(f"{self._url!r} ended after {self._at} of {self._length} bytes")
        except httpx.HTTPError as error:
            raise OSError(f"{self._url!r} cannot be read: {error}") from error
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        self._at += size
        return size

    def close(self) -> None:
        self._drop()
        super().close()

    def _ask(self) -> None:
        asked = self._client.build_request("GET", self._url, headers={"range": f"bytes={self._at}-"})
        self._answer = self._client.send(asked, stream=True)
        _require_found(self._answer, self._url)
        if self._at and self._answer.status_code != httpx.codes.PARTIAL_CONTENT:
            raise ShardUnreadable(f"the server of {self._url!r} serves no part of a file; use another one")
        self._pieces = self._answer.iter_raw(1 << 18)

    def _drop(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._answer, self._rest = None, b""


def _require_found(answer: httpx.Response, url: str) -> None:
    if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
        raise FileNotFoundError(f"{url!r} does not exist")
    if not answer.is_success:
        raise OSError(f"{url!r} answers {answer.status_code}")
