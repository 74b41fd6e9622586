"""A run's progress on a terminal: a bar on standard error, nothing where that is no terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from faultline._progress import describe_counts
from faultline._runs import AnyRun


def follow_progress(run: AnyRun, *, quiet: bool) -> None:
    """Show the run's progress until it ends."""
    # Standard output belongs to the result, which may be piped on.
    console = Console(stderr=True)
    # In a log file a bar is a thousand lines of noise.
    if quiet or not console.is_terminal:
        run.wait()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("planned", total=None)
        for event in run.events():
            counts = event.request_counts
            progress.update(
                task,
                total=counts.total,
                # Filtered and failed items are finished too: a bar of ``done`` alone would never fill.
                completed=counts.total - counts.pending,
                description=describe_counts(counts),
            )
