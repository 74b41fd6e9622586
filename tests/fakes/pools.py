"""A pool of no processes: what is handed over is done at once."""

from __future__ import annotations

from typing import Any

from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.summaries.joined import Task
from counterpose_processes.pool import Pool, Work


class AtOnce(Pool):
    """No process: a task is done while it is handed over; ``tasks`` counts them."""

    def __init__(self, runs: RecordedRuns) -> None:
        """Give ``runs`` to each task."""
        self._runs, self.tasks = runs, 0

    def start(self, task: Task[Any], caller: str = "") -> Work[Any]:
        """Do it."""
        self.tasks += 1
        work = Work[Any](task)
        work.set_result(task(self._runs))
        return work
