"""A server that starts an ASGI application and hears nothing back."""

from __future__ import annotations

from starlette.types import ASGIApp, Message


async def start_up(app: ASGIApp) -> None:
    """Send the application the message of a starting server."""

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(_: Message) -> None:
        return None

    await app({"type": "lifespan"}, receive, send)
