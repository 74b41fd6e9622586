# Generated from clients/counterpose/_async/paging.py by clients/blocking_half.py; do not edit.
"""Paged lists: the cursor of one page fetches the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from counterpose._calls import Call
from counterpose._transport_protocol import Sender


class Page(Protocol):
    """A page; ``after`` is the cursor of the next one, None on the last."""

    @property
    def after(self) -> str | None:
        """The opaque cursor."""


P = TypeVar("P", bound=Page)


def pages(sender: Sender, call: Callable[[str | None], Call[P]]) -> Iterator[P]:
    """Yield page after page; ``call`` builds the request from a cursor."""
    page = sender.send(call(None))
    yield page
    while page.after is not None:
        page = sender.send(call(page.after))
        yield page
