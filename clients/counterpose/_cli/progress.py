"""A run's progress on a terminal: a bar on standard error, nothing where that is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from counterpose._progress import describe_counts
from counterpose._sync.run_handle import AnyRun
from counterpose_core.contract.runs import RequestCounts

LOOK_SLICE_S = 5.0
"""How long a wait for the run's end lasts before its job is looked at."""


def follow_progress(run: AnyRun, *, quiet: bool, look: Callable[[], None] | None = None) -> None:
    """Show the run's progress until it ends; ``look`` is called in between, and may raise to end this."""
    # Standard output belongs to the result, which may be piped on.
    console = Console(stderr=True)
    # In a log file a bar is a thousand lines of noise.
    if quiet or not console.is_terminal:
        for _ in _states(run, look):
            continue
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
        for counts in _states(run, look) if look is not None else _events(run):
            progress.update(
                task,
                total=counts.total,
                # Filtered and failed items are finished too: a bar of ``done`` alone would never fill.
                completed=counts.total - counts.pending,
                description=describe_counts(counts),
            )


def _events(run: AnyRun) -> Iterator[RequestCounts]:
    return (event.request_counts for event in run.events())


def _states(run: AnyRun, look: Callable[[], None] | None) -> Iterator[RequestCounts]:
    if look is None:
        run.wait(check=False)
    while not run.ended:
        run.wait(LOOK_SLICE_S, check=False)
        yield run.run.request_counts
        if look is not None:
            look()
