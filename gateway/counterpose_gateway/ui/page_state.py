"""What the pages keep in memory: headlines of ended runs, figures and parts of runs that are going."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from counterpose_gateway.ui.headlines import Headlines
from counterpose_gateway.ui.live_figures import LiveFigures
from counterpose_gateway.ui.live_parts import LiveParts


class PageState:
    """The memory of the pages of one application."""

    def __init__(self) -> None:
        self.headlines = Headlines()
        self.live = LiveFigures()
        self.parts = LiveParts()


async def _state_of(request: Request) -> PageState:
    state = request.app.state.pages
    assert isinstance(state, PageState)  # `create_app` put it there
    return state


Pages = Annotated[PageState, Depends(_state_of)]
