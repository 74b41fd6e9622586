"""Ranges of bytes: none are served, and every answer says so (RFC 9110, section 14.3).

Results and exports are made while they are sent, so a range of one would be of another; results resume by
``from``, and a Range header is ignored, as the standard lets a server do.
"""

from __future__ import annotations

from starlette.types import Message, Send

_NAME = b"accept-ranges"


def without_ranges(send: Send) -> Send:
    """Return ``send`` that tells the caller not to ask for ranges, unless the answer says otherwise."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            if all(name.lower() != _NAME for name, _ in headers):
                headers.append((_NAME, b"none"))
            message = {**message, "headers": headers}
        await send(message)

    return sending
