"""One HTTP call to a server of others: no redirect, bounded in time and bytes, with errors that name it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from counterpose_core.errors import BackendUnavailable, BadBackendOutput, DeadlineExceeded
from counterpose_http.outbound import OutboundTransport, total_deadline


@dataclass(frozen=True)
class AnswerLimits:
    """The most seconds that a call takes as a whole, and the most bytes of its answer."""

    seconds: float = 30.0
    # 64 rows of ImageNet-21k's 21,841 classes are 35 MB at 25 characters per number.
    most_bytes: int = 64 * 2**20


@dataclass(frozen=True)
class Answer:
    """An answer of any status, read whole."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True)
class Form:
    """The fields of a ``multipart/form-data``, and its files: name, bytes and media type of each."""

    fields: Mapping[str, str]
    files: Mapping[str, tuple[str, bytes, str]]


def outbound_client(
    limits: AnswerLimits, *, connections: int = 100, transport: httpx.BaseTransport | None = None
) -> httpx.Client:
    """Return a client for `BoundedCalls`, which keeps up to ``connections`` open between calls."""
    # At INFO, httpx writes the address of each call, and a function's address is a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # A redirect could lead to a host that is not allowed.
    return httpx.Client(
        timeout=limits.seconds, trust_env=False, follow_redirects=False,
        headers={"accept-encoding": "identity"}, transport=transport or OutboundTransport(None, connections),
    )  # fmt: skip


class BoundedCalls:
    """Calls a server; errors call it ``name`` and name the settings, which begin with ``prefix``."""

    def __init__(self, client: httpx.Client, limits: AnswerLimits, *, name: str, prefix: str) -> None:
        self._client, self._limits, self._name, self._prefix = client, limits, name, prefix

    def send(
        self,
        method: str,
        url: str,
        body: object = None,
        *,
        form: Form | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Return the answer, whatever its status.

        Args:
            method: the HTTP method.
            url: the whole address.
            body: what to send as JSON, or None for nothing.
            form: what to send as a form in place of a body.
            headers: further headers.
            seconds: less time than the limit, for a call that is tried again.

        Raises:
            DeadlineExceeded: it did not answer whole in time.
            BackendUnavailable: it could not be reached, or broke off.
            BadBackendOutput: the answer is too large.
        """
        sent: dict[str, Any] = {"json": body}
        if form is not None:
            sent = {"data": form.fields, "files": form.files}
        try:
            with (
                total_deadline(self._limits.seconds if seconds is None else seconds),
                self._client.stream(method, url, headers=headers, **sent) as response,
            ):
                content = self._bounded(response)
        except httpx.TimeoutException as error:
            raise DeadlineExceeded(
                f"{self._name!r} did not answer whole within {self._limits.seconds:g} s "
                f"({self._prefix}_SECONDS); make it faster, or permit more"
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise BackendUnavailable(
                f"{self._name!r} cannot be reached; check that the server is running"
            ) from error
        return Answer(response.status_code, response.headers, content)

    def _bounded(self, response: httpx.Response) -> bytes:
        # What a compressed piece becomes has no bound: gzip twice makes a million bytes of one.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise BadBackendOutput(f"the answer of {self._name!r} is compressed; turn its compression off")
        content = bytearray()
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > self._limits.most_bytes:
                raise BadBackendOutput(
                    f"the answer of {self._name!r} has more than {self._limits.most_bytes} bytes "
                    f"({self._prefix}_ANSWER_BYTES); ask for less, or permit more"
                )
        return bytes(content)
