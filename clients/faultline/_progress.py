"""How far a run is, in one line on standard error: for programs and notebooks, without a terminal library."""

from __future__ import annotations

import sys

from faultline_core.contract.runs import RequestCounts, Run

PROGRESS_SLICE_S = 2.0
"""Seconds between two looks at a run whose progress is shown."""


def describe_counts(counts: RequestCounts) -> str:
    """Say how many items were kept, filtered and failed so far."""
    return f"{counts.done} kept · {counts.filtered} filtered · {counts.failed} failed"


class ProgressLine:
    """A line that is rewritten on a terminal; elsewhere a new line for every tenth of the run."""

    def __init__(self) -> None:
        self._tenth = -1
        self._width = 0

    def show(self, run: Run) -> None:
        """Show the run as it stands."""
        counts = run.request_counts
        ended = counts.total - counts.pending
        text = f"run {run.id[:8]} {run.state}: {ended} of {counts.total} items · {describe_counts(counts)}"
        if sys.stderr.isatty():
            # Blanks cover what a longer line left behind.
            sys.stderr.write(f"\r{text:{self._width}}")
            sys.stderr.flush()
            self._width = len(text)
        elif (tenth := 10 * ended // max(counts.total, 1)) > self._tenth:
            self._tenth = tenth
            sys.stderr.write(f"{text}\n")

    def close(self) -> None:
        """End the line."""
        if self._width:
            sys.stderr.write("\n")
