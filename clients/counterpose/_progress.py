"""How far a run is: a line on standard error, or a bar in a notebook; without a terminal library."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from counterpose._notebook import progress
from counterpose_core.contract.runs import RequestCounts, Run

PROGRESS_SLICE_S = 2.0
"""Seconds between two looks at a run whose progress is shown."""


class Progress(Protocol):
    """Something that shows how far a run is."""

    def show(self, run: Run) -> None:
        """Show the run as it stands."""

    def close(self) -> None:
        """End what is shown."""


def shown_progress() -> Progress:
    """Return a bar in a notebook, and a line elsewhere."""
    display = _notebook_display()
    return ProgressLine() if display is None else ProgressBar(display)


def describe_counts(counts: RequestCounts) -> str:
    """Say how many items were kept, filtered and failed so far."""
    return f"{counts.done} kept · {counts.filtered} filtered · {counts.failed} failed"


class ProgressLine:
    """A line that is rewritten on a terminal; elsewhere a new line for every tenth of the run."""

    def __init__(self) -> None:
        self._seen = (0, -1)
        self._width = 0

    def show(self, run: Run) -> None:
        """Show the run as it stands."""
        counts = run.request_counts
        text = _text(run)
        # With its total: a run of several stages goes back to an earlier tenth when a stage is planned.
        seen = (counts.total, 10 * (counts.total - counts.pending) // max(counts.total, 1))
        if sys.stderr.isatty():
            # Blanks cover what a longer line left behind.
            sys.stderr.write(f"\r{text:{self._width}}")
            sys.stderr.flush()
            self._width = len(text)
        elif seen != self._seen:
            self._seen = seen
            sys.stderr.write(f"{text}\n")

    def close(self) -> None:
        """End the line."""
        if self._width:
            sys.stderr.write("\n")


class ProgressBar:
    """A bar below a notebook's cell, which is redrawn in its place.

    Args:
        display: ``IPython.display.display``.
    """

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, run: Run) -> None:
        """Show the run as it stands."""
        page = {"text/html": progress(run), "text/plain": _text(run)}
        if self._handle is None:
            self._handle = self._display(page, raw=True, display_id=True)
        else:
            self._handle.update(page, raw=True)

    def close(self) -> None:
        """Leave the bar as it is."""


def _text(run: Run) -> str:
    counts = run.request_counts
    ended = counts.total - counts.pending
    return f"run {run.id[:8]} {run.state}: {ended} of {counts.total} items · {describe_counts(counts)}"


def _notebook_display() -> Callable[..., Any] | None:
    # A notebook's kernel has imported IPython; elsewhere nothing is imported for it.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # IPython in a terminal has no kernel and would print the bar's HTML as text.
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    display: Callable[..., Any] = importlib.import_module("IPython.display").display
    return display


@contextmanager
def shown_if(wanted: bool) -> Iterator[Callable[[Run], None]]:
    """Yield a function that shows a run's progress, or none."""
    if not wanted:
        yield lambda _: None
        return
    shown = shown_progress()
    try:
        yield shown.show
    finally:
        shown.close()
