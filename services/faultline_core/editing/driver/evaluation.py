"""What a trajectory needs next: samples to evaluate, asked for by a generator that is sent the answers."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from faultline_core.editing.attention_control import CrossEdit

T = TypeVar("T")

Owner = Hashable
"""Who pays for a sample: any name that a walk's caller knows it by."""


@dataclass(frozen=True)
class Carry:
    """Attention carried from the first row of an evaluation to all its others, the targets.

    ``cross`` edits their cross-attention maps (None when it is off), ``injected`` says of each whether it
    takes the source's self-attention, ``collect`` asks for the word maps.
    """

    cross: CrossEdit | None
    injected: tuple[bool, ...]
    collect: bool = False


@dataclass(frozen=True)
class Objective:
    """The mean square of ``scale * output + offset``, whose gradient in the text is wanted, row by row.

    ``read``: its values are wanted on the host as well, for which the device has to be waited for.
    """

    scale: float
    offset: Tensor
    read: bool


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Rows that a trajectory needs next, all at one timestep.

    A timestep is whole but where a scheduler goes to noise levels between those of the training. ``latents``
    (R, C, H, W) under ``text`` (R, L, D); ``owners`` (R) pay for a row each. Rows do not look at
    each other unless ``carry`` says so. With an ``objective`` the gradient is answered as well.
    """

    timestep: float
    latents: Tensor
    text: Tensor
    owners: Sequence[Owner]
    carry: Carry | None = None
    objective: Objective | None = None


@dataclass(frozen=True)
class WordMaps:
    """Mean cross-attention maps (T, queries, L) of the finest layers: of the source and of each target."""

    source: Tensor
    target: Tensor


@dataclass(frozen=True)
class Answer:
    """Outputs (R, C, H, W) of an evaluation; beyond them what it asked for.

    ``gradient`` (R, L, D) and ``values`` (R) are those of its objective.
    """

    output: Tensor
    maps: tuple[WordMaps, ...] = ()
    gradient: Tensor | None = None
    values: tuple[float, ...] = ()

    @classmethod
    def join(cls, parts: Sequence[Answer]) -> Answer:
        """Put together what several calls answered."""
        if len(parts) == 1:
            return parts[0]
        slopes = [part.gradient for part in parts if part.gradient is not None]
        return cls(
            torch.cat([part.output for part in parts]),
            maps=tuple(maps for part in parts for maps in part.maps),
            gradient=torch.cat(slopes) if slopes else None,
            values=tuple(value for part in parts for value in part.values),
        )


Walk = Generator[Sequence[Evaluation], Sequence[Answer], T]
"""A trajectory: it yields what it needs next, is sent an answer for each, and returns what it came to."""
