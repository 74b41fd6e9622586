"""The steps of a start or a stop on standard error: a line that changes, or one line a step in a log."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Steps:
    """Shows the present step; ``end`` makes room for another display until the next step."""

    def __init__(self, console: Console | None = None) -> None:
        # Standard output belongs to the result.
        self._console = console or Console(stderr=True)
        self._progress: Progress | None = None
        self._last = ""

    def tell(self, step: str) -> None:
        """Show a step; a step that is repeated is shown once."""
        if step == self._last:
            return
        self._last = step
        if not self._console.is_terminal:
            self._console.print(step, markup=False, highlight=False, soft_wrap=True)
            return
        if self._progress is None:
            self._progress = Progress(*_columns(), console=self._console, transient=True)
            self._progress.start()
            self._progress.add_task(step, total=None)
        self._progress.update(self._progress.task_ids[0], description=step)

    def end(self) -> None:
        """Take the line away."""
        self._last = ""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def _columns() -> tuple[SpinnerColumn, TextColumn, TimeElapsedColumn]:
    # A service's name in brackets is no markup of rich's.
    return SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
