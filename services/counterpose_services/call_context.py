"""Whose call a service works on, and until when; set for each request, read wherever work is ordered."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """The run that a call belongs to, if it told, and its deadline in seconds of the monotonic clock."""

    run: str = ""
    deadline: float = float("inf")


NOBODY = Caller()
CALLER: ContextVar[Caller] = ContextVar("caller", default=NOBODY)
