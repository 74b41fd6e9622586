"""Paged lists: the cursor of one page fetches the next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

from counterpose._calls import Call
from counterpose._transport_protocol import AsyncSender


class Page(Protocol):
    """A page; ``after`` is the cursor of the next one, None on the last."""

    @property
    def after(self) -> str | None:
        """The opaque cursor."""


P = TypeVar("P", bound=Page)


async def pages(sender: AsyncSender, call: Callable[[str | None], Call[P]]) -> AsyncIterator[P]:
    """Yield page after page; ``call`` builds the request from a cursor."""
    page = await sender.send(call(None))
    yield page
    while page.after is not None:
        page = await sender.send(call(page.after))
        yield page
