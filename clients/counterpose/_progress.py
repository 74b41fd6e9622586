"""How far a run is: a line on standard error, or a bar in a notebook; without a terminal library."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from pydantic import ValidationError

from counterpose._notebook import progress
from counterpose_core.contract.confirmation import ConfirmationPlan
from counterpose_core.contract.runs import RequestCounts, Run
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.stress_test.item_counts import LAST_STAGE, most_items
from counterpose_core.types import FINAL_RUN_STATES

PROGRESS_SLICE_S = 2.0
"""Seconds between two looks at a run whose progress is shown."""
LINE_S = 10.0
"""Seconds between two lines where lines cannot be rewritten: a log shows that the run goes on."""
_LEAST_ENDED = 10
"""Items from which the time that is left is guessed."""
_LONG_S = 30.0
"""Seconds without enough ended items after which it is said what the time left waits for."""
_RECENT_S = 60.0
"""A run that slows down is judged by its last minute."""


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


class Forecast:
    """How much of a run has ended, of all its stages, and how long the rest takes.

    Later stages are planned from what earlier ones find, so a run may end with fewer items than forecast.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: tuple[float, int] | None = None
        self._recent: list[tuple[float, int]] = []
        self._plans = False
        self.most = 0
        self.ended = 0
        self.share = 0.0
        self._at_most = False

    def see(self, run: Run) -> None:
        """Take the run as it stands."""
        counts = run.request_counts
        self.ended = counts.total - counts.pending
        has_ended = run.state in FINAL_RUN_STATES
        self.most = counts.total if has_ended else max(self.most, _most_items(run))
        # A hunt may need more items than its budget has images: what is shown never goes back.
        self.share = 1.0 if has_ended else max(self.share, self.ended / max(self.most, 1))
        if self._since is None and run.state == "in_progress":
            self._since = self._clock(), self.ended
        self._plans = run.state == "finalizing"
        self._recent.append((self._clock(), self.ended))
        while len(self._recent) > 1 and self._recent[1][0] <= self._clock() - _RECENT_S:
            del self._recent[0]
        self._at_most = self.most > counts.total

    @property
    def items(self) -> str:
        """How many items of how many have ended."""
        return f"{self.ended} of {'at most ' if self._at_most else ''}{self.most} items"

    @property
    def left(self) -> str:
        """How long the whole run still takes; empty while nobody can say, and at the end."""
        if self._plans:
            return "planning the next phase"
        began, before = self._since or (self._clock(), self.ended)
        seconds, ended = self._clock() - began, self.ended - before
        if self.ended >= self.most:
            return ""
        if ended < _LEAST_ENDED or seconds <= 0.0:
            # A silent line looks like a run that hangs: an image has several phases before an item ends.
            waits = seconds >= _LONG_S and self.most > _LEAST_ENDED
            return f"the time left is told from {_LEAST_ENDED} ended items on" if waits else ""
        since, then = self._recent[0]
        slowest = max(seconds / ended, (self._clock() - since) / max(1, self.ended - then))
        minutes = (self.most - self.ended) * slowest / 60.0
        if minutes < 1.0:
            return "less than a minute left"
        return f"{'at most ' if self._at_most else ''}about {minutes:.0f} min left"


class ProgressLine:
    """A line that is rewritten on a terminal; elsewhere a new line every `LINE_S` seconds, and at the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._forecast = Forecast(clock)
        self._last: float | None = None
        self._width = 0

    def show(self, run: Run) -> None:
        """Show the run as it stands."""
        self._forecast.see(run)
        text = _text(run, self._forecast)
        if sys.stderr.isatty():
            # Blanks cover what a longer line left behind.
            sys.stderr.write(f"\r{text:{self._width}}")
            sys.stderr.flush()
            self._width = len(text)
        elif self._last is None or self._clock() - self._last >= LINE_S or run.state in FINAL_RUN_STATES:
            self._last = self._clock()
            sys.stderr.write(f"{text}\n")
            # A pipe is buffered.
            sys.stderr.flush()

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
        self._forecast = Forecast()

    def show(self, run: Run) -> None:
        """Show the run as it stands."""
        self._forecast.see(run)
        shown = progress(run, self._forecast.items, self._forecast.share)
        page = {"text/html": shown, "text/plain": _text(run, self._forecast)}
        if self._handle is None:
            self._handle = self._display(page, raw=True, display_id=True)
        else:
            self._handle.update(page, raw=True)

    def close(self) -> None:
        """Leave the bar as it is."""


def _text(run: Run, forecast: Forecast) -> str:
    told = (forecast.items, describe_counts(run.request_counts), forecast.left)
    return f"run {run.id[:8]} {run.state}: {' · '.join(filter(None, told))}"


def _most_items(run: Run) -> int:
    """The most items that the run can come to have, as far as its configuration says so."""
    planned, config = run.request_counts.total, run.resolved_config
    plan, proof, request = (config.get(name) or {} for name in ("confirmation", "proof", "request"))
    if run.kind in ("bug-hunt", "adversarial-dataset"):
        budget = request.get("budget") or request
        return max(planned, budget.get("images") or 0)
    if run.stage >= LAST_STAGE or (proof and run.stage > 1):
        return planned
    if proof:
        # A control and an edit of each image.
        return planned + 2 * int(proof["images"])
    budget = 0 if plan.get("reason") else int(plan.get("budget", 0))
    if run.stage == 1 or not budget:
        return planned + budget
    # A run of another version may have a request that this one cannot read.
    with suppress(ValidationError):
        whole = most_items(StressTestCreate.model_validate(request), ConfirmationPlan.model_validate(plan))
        return max(planned, whole)
    return planned


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
