"""Refusals as the Open Inference Protocol has them: JSON with the text under ``error``."""

from __future__ import annotations

import json

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE

PREFIX = "/v2"


class ErrorField:
    """Adds ``error`` to the problem documents below ``/v2``, whoever wrote them: guard, router or route.

    The other members stay, so that our own code can still be read from them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_protocol_s(scope):
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, _Rewriting(send))


class _Rewriting:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_problem(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        problem = json.loads(self._body)
        body = json.dumps({"error": problem["detail"], **problem}).encode()
        headers = MutableHeaders(raw=list(start["headers"]))
        # Not as problem+json: the protocol's clients read only JSON of this name.
        headers["content-type"], headers["content-length"] = "application/json", str(len(body))
        await self._send({**start, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": body})


def _is_protocol_s(scope: Scope) -> bool:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return bool(path == PREFIX or path.startswith(f"{PREFIX}/"))


def _is_problem(message: Message) -> bool:
    return Headers(raw=list(message.get("headers", []))).get("content-type") == PROBLEM_MEDIA_TYPE
