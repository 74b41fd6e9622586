"""The steps of a start or a stop on standard error: lines that change, or one line a step in a log."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from counterpose_core.weights_reading import WeightsReading


class Steps:
    """Shows the present step; ``end`` makes room for another display until the next step."""

    def __init__(self, console: Console | None = None) -> None:
        # Standard output belongs to the result.
        self._console = console or Console(stderr=True)
        self._progress: Progress | None = None
        self._last = ""
        self._files: dict[str, TaskID] = {}
        self._told: set[tuple[str, str]] = set()

    def tell(self, step: str) -> None:
        """Show a step; a step that is repeated is shown once."""
        if step == self._last:
            return
        self._last = step
        if not self._console.is_terminal:
            self._console.print(step, markup=False, highlight=False, soft_wrap=True)
            return
        progress = self._shown()
        progress.update(progress.task_ids[0], description=step)

    def watch(self, read: Sequence[WeightsReading]) -> None:
        """Show a bar for the file that each service reads; in a log, one line when it begins."""
        if not self._console.is_terminal:
            for one in read:
                if (one.service, one.file) not in self._told:
                    self._told.add((one.service, one.file))
                    self._console.print(str(one), markup=False, highlight=False, soft_wrap=True)
            return
        progress = self._shown()
        for service in set(self._files) - {one.service for one in read}:
            progress.remove_task(self._files.pop(service))
        for one in read:
            if one.service not in self._files:
                self._files[one.service] = progress.add_task("", total=one.size_bytes)
            progress.update(
                self._files[one.service], description=str(one), total=one.size_bytes, completed=one.read_bytes
            )

    def refresh(self) -> None:
        """Draw now what is shown, before the next tick."""
        self._shown().refresh()

    def _shown(self) -> Progress:
        if self._progress is None:
            self._progress = Progress(*_columns(), console=self._console, transient=True)
            self._progress.start()
            self._progress.add_task("", total=None)
        return self._progress

    def end(self) -> None:
        """Take the line away."""
        self._last = ""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            self._files.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class _FileBar(ProgressColumn):
    """A bar for a file; a step has no end that could be drawn."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn()

    def render(self, task: Task) -> RenderableType:
        """Return the bar, or nothing."""
        return "" if task.total is None else self._bar.render(task)


def _columns() -> tuple[ProgressColumn, ...]:
    # A service's name in brackets is no markup of rich's.
    text = TextColumn("{task.description}", markup=False)
    return SpinnerColumn(), text, _FileBar(), TimeElapsedColumn()
