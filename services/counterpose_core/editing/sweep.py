"""Forks of the sweep: the state of a target where injection ends for one value and continues for others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from counterpose_core.editing.noise_schedule import Timetable
from counterpose_core.types import InjectionEnd


@dataclass(frozen=True)
class Fork:
    """The state of a target before step ``step``, with self-attention injected at every step so far.

    All values of self_replace whose injection ends at ``step`` or later pass through this state. An edit at
    any of them can continue from it (`EditTask.start`), and its result equals that of a whole edit up to
    rounding.

    Attributes:
        step: the next step.
        latents: the latents (C, H, W).
        heats: the sums of local blend (2, side, side), None without it.
        earlier: what the solver keeps from the previous step (C, H, W), if anything.
    """

    step: int
    latents: Tensor
    heats: Tensor | None = None
    earlier: Tensor | None = None


def fork_steps(table: Timetable, values: Iterable[float], end: InjectionEnd = "exact") -> tuple[int, ...]:
    """Return the steps (> 0), ascending, at which injection ends for ``values`` of self_replace."""
    return tuple(sorted({table.first(value, end) for value in values} - {0}))


def latest_fork(
    forks: Sequence[Fork], table: Timetable, values: Iterable[float], end: InjectionEnd = "exact"
) -> Fork | None:
    """Return the latest fork that edits at all of ``values`` pass through, or None."""
    first = min(table.first(value, end) for value in values)
    return max((fork for fork in forks if fork.step <= first), key=lambda fork: fork.step, default=None)
