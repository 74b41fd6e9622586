"""Forks of the sweep: where a target stands when injection ends for one value and goes on for others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from faultline_core.editing.noise_schedule import Timetable
from faultline_core.types import InjectionEnd


@dataclass(frozen=True)
class Fork:
    """A target before step ``step``, its self-attention injected in every step so far.

    ``latents`` (C, H, W); ``heats`` (2, side, side) is what local blend has summed up, None without it;
    ``earlier`` (C, H, W) is what the solver remembers of the step before, if anything.
    All values of self_replace whose injection ends at ``step`` or later come through here: an edit at any
    of them can go on from it (`EditTask.start`), and ends where a whole edit does, up to rounding.
    """

    step: int
    latents: Tensor
    heats: Tensor | None = None
    earlier: Tensor | None = None


def fork_steps(table: Timetable, values: Iterable[float], end: InjectionEnd = "exact") -> tuple[int, ...]:
    """Steps, ascending, before which ``values`` of self_replace let go of the source; never the first."""
    return tuple(sorted({table.first(value, end) for value in values} - {0}))


def latest_fork(
    forks: Sequence[Fork], table: Timetable, values: Iterable[float], end: InjectionEnd = "exact"
) -> Fork | None:
    """Return the fork furthest along that an edit at all of ``values`` still comes through, if any."""
    first = min(table.first(value, end) for value in values)
    return max((fork for fork in forks if fork.step <= first), key=lambda fork: fork.step, default=None)
