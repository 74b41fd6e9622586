"""Files over HTTPS from public addresses alone."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from counterpose_core.errors import ImportRefused, ShardUnreadable
from counterpose_http.outbound import Backend, NotPublicError, OutboundTransport, addresses_of, total_deadline

SECONDS = 60.0
"""The longest wait for one answer or one piece of it, to its end."""
MOST_REDIRECTS = 5
BUFFER = 1 << 20
"""Bytes that are read ahead."""


def _require_https(request: httpx.Request) -> None:
    if request.url.scheme != "https":
        raise ImportRefused(
            f"{str(request.url.copy_with(query=None))!r} is not https; nothing else is followed"
        )


@contextmanager
def _reading(url: str) -> Iterator[None]:
    try:
        with total_deadline(SECONDS):
            yield
    except NotPublicError as error:
        raise ImportRefused(str(error)) from error
    except httpx.HTTPStatusError as error:
        if error.response.status_code in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
            raise FileNotFoundError(f"{url!r} does not exist") from error
        raise OSError(f"{url!r} answers {error.response.status_code}") from error
    except httpx.HTTPError as error:
        raise OSError(f"{url!r} cannot be read: {error}") from error


class HttpsFiles:
    """The files of the web, read by ranges."""

    def __init__(self, backend: Backend | None = None) -> None:
        self._client = httpx.Client(
            transport=OutboundTransport(backend or Backend(addresses_of)), trust_env=False, timeout=SECONDS,
            follow_redirects=True, max_redirects=MOST_REDIRECTS, event_hooks={"request": [_require_https]},
            headers={"accept-encoding": "identity"},
        )  # fmt: skip

    def stamp(self, url: str) -> str:
        """Return size and version of a file; raises FileNotFoundError or OSError."""
        told = self._head(url)
        return " ".join(
            told.get(*each) for each in (("content-length", "?"), ("etag", ""), ("last-modified", ""))
        )

    def open(self, url: str) -> io.BufferedReader:
        """Open a file; raises FileNotFoundError or OSError."""
        length = self._head(url).get("content-length", "")
        if not length.isdigit():
            raise OSError(f"the server of {url!r} does not say how long the file is")
        return io.BufferedReader(_Ranges(self._client, url, int(length)), buffer_size=BUFFER)

    def _head(self, url: str) -> httpx.Headers:
        with _reading(url):
            return self._client.head(url).raise_for_status().headers


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

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        if start + offset != self._at:
            self._drop()
            self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._length:
            return 0
        with _reading(self._url):
            if self._answer is None:
                self._ask()
            self._rest = self._rest or next(self._pieces, b"")
        if not self._rest:
            raise OSError(f"{self._url!r} ended after {self._at} of {self._length} bytes")
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
        self._answer.raise_for_status()
        if self._at and self._answer.status_code != httpx.codes.PARTIAL_CONTENT:
            raise ShardUnreadable(f"the server of {self._url!r} serves no part of a file; use another one")
        self._pieces = self._answer.iter_raw(1 << 18)

    def _drop(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._answer, self._rest = None, b""
