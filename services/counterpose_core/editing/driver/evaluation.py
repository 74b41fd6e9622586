"""Walks: generators that yield the evaluations they need next and are sent the answers."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from counterpose_core.editing.attention_control import CrossEdit

T = TypeVar("T")

Owner = Hashable
"""Identifies who pays for a sample; chosen by the caller of the walk."""


@dataclass(frozen=True)
class Carry:
    """Attention carried from the first row of an evaluation to all its others, the targets.

    Attributes:
        cross: edits the cross-attention maps of the targets; None if it is off.
        injected: whether each target takes the source's self-attention.
        collect: whether the answer includes the word maps.
    """

    cross: CrossEdit | None
    injected: tuple[bool, ...]
    collect: bool = False


@dataclass(frozen=True)
class Objective:
    """The mean square of ``scale * output + offset``, whose gradient in the text is computed row by row.

    ``read``: whether its values are copied to the host too, which waits for the device.
    """

    scale: float
    offset: Tensor
    read: bool


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """R rows that a walk needs next, all at one timestep.

    Attributes:
        timestep: a whole number, unless a scheduler visits noise levels between those of the training.
        latents: the latents (R, C, H, W).
        text: the encoded text (R, L, D).
        owners: the owner of each row, who pays for it.
        carry: the attention carried between rows; without it, rows do not depend on each other.
        objective: the objective whose gradient the answer includes.
    """

    timestep: float
    latents: Tensor
    text: Tensor
    owners: Sequence[Owner]
    carry: Carry | None = None
    objective: Objective | None = None


@dataclass(frozen=True)
class WordMaps:
    """Mean cross-attention maps (T, queries, L) of the finest layers, for the source and for each target."""

    source: Tensor
    target: Tensor


@dataclass(frozen=True)
class Answer:
    """The outputs (R, C, H, W) of an evaluation, and what else it requested.

    ``gradient`` (R, L, D) and ``values`` (R) belong to its objective.
    """

    output: Tensor
    maps: tuple[WordMaps, ...] = ()
    gradient: Tensor | None = None
    values: tuple[float, ...] = ()

    @classmethod
    def join(cls, parts: Sequence[Answer]) -> Answer:
        """Join the answers of several calls."""
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
"""A generator that yields the evaluations it needs next, is sent their answers, and returns a result."""
