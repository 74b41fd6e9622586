"""The steps of a start or a stop on standard error: lines that change, or one line a step in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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

from counterpose._progress import LINE_S
from counterpose_core.weights_reading import WeightsReading

_outer: list[Steps] = []
"""What `going_on` shows now, as a terminal has one line that changes."""


class Steps:
    """Shows the present step; ``end`` makes room for another display until the next step.

    A log has a line a step, and another one after every `LINE_S` seconds in which nothing new was to say.
    """

    def __init__(self, console: Console | None = None) -> None:
        # Standard output belongs to the result.
        self._console = console or Console(stderr=True)
        self._progress: Progress | None = None
        self._last = ""
        self._began = self._said = time.monotonic()
        self._ended = threading.Event()
        self._files: dict[str, TaskID] = {}
        self._told: set[tuple[str, str]] = set()

    def tell(self, step: str, *, if_long: bool = False) -> None:
        """Show a step; a step that is repeated is shown once.

        ``if_long``: a log has no line of it unless it takes long.
        """
        if step == self._last:
            return
        self._last, self._began = step, time.monotonic()
        if not self._console.is_terminal:
            if not if_long:
                self._line(step)
            return
        progress = self._shown()
        progress.update(progress.task_ids[0], description=step)

    @property
    def present(self) -> str:
        """The present step."""
        return self._last

    def watch(self, read: Sequence[WeightsReading]) -> None:
        """Show a bar for the file that each service reads; in a log, one line when it begins."""
        if not self._console.is_terminal:
            for one in read:
                if (one.service, one.file) not in self._told:
                    self._told.add((one.service, one.file))
                    self._line(str(one))
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

    def _line(self, text: str) -> None:
        self._said = time.monotonic()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _repeat(self) -> None:
        while not self._ended.wait(max(0.0, self._said + LINE_S - time.monotonic())):
            now, step = time.monotonic(), self._last
            if now < self._said + LINE_S:
                continue
            if step:
                self._line(f"{step}: {now - self._began:.0f} s")
            self._said = now

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
        if not self._console.is_terminal:
            threading.Thread(target=self._repeat, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self.end()


@contextmanager
def going_on(step: str) -> Iterator[Steps]:
    """Show a step while it lasts; a log has a line of it every `LINE_S` seconds, and none if it is shorter.

    A step within another takes its line, and gives it back.
    """
    if _outer:
        before = _outer[-1].present
        _outer[-1].tell(step, if_long=True)
        yield _outer[-1]
        _outer[-1].tell(before, if_long=True)
        return
    with Steps() as steps:
        _outer.append(steps)
        try:
            steps.tell(step, if_long=True)
            yield steps
        finally:
            _outer.clear()


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
