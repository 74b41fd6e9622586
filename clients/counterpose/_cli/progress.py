"""A run's progress on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from counterpose._progress import PROGRESS_SLICE_S, Forecast, ProgressLine, describe_counts
from counterpose._run_calls import WAIT_SLICE_S
from counterpose._sync.run_handle import AnyRun
from counterpose_core.contract.runs import Run


def follow_progress(run: AnyRun, *, quiet: bool, look: Callable[[], None] | None = None) -> None:
    """Show the run's progress until it ends; ``look`` is called in between, and may raise to end this."""
    with _shown(quiet) as show:

        def seen(run: Run) -> None:
            show(run)
            if look is not None:
                look()

        run._wait(seen, None, WAIT_SLICE_S if quiet and look is None else PROGRESS_SLICE_S)


@contextmanager
def _shown(quiet: bool) -> Iterator[Callable[[Run], None]]:
    # Standard output belongs to the result, which may be piped on.
    console = Console(stderr=True)
    if quiet:
        yield lambda _: None
    elif not console.is_terminal:
        # In a log file a bar is a thousand lines of noise.
        yield ProgressLine().show
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[items]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        with Progress(*columns, console=console) as progress:
            forecast = Forecast()
            task = progress.add_task("planned", total=None, items="", left="")

            def show(run: Run) -> None:
                forecast.see(run)
                progress.update(
                    task,
                    total=1.0,
                    completed=forecast.share,
                    description=describe_counts(run.request_counts),
                    items=forecast.items,
                    left=forecast.left,
                )

            yield show
