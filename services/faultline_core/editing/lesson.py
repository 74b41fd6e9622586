"""A class to learn: what it is shown at each step, how far it has come, and what became of it.

What it is shown hangs on its seed, its name and the step alone, so there is no generator to carry over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import torch
from torch import Generator, Tensor


@dataclass(frozen=True)
class Sample:
    """One picture of a step: which it is, whether it is mirrored, under which template, at which timestep."""

    picture: int
    mirrored: bool
    template: int
    timestep: int


@dataclass(frozen=True, kw_only=True)
class Draws:
    """The random stream of one class: of ``pictures`` of them, ``batch`` a step.

    ``key`` names the class. Any step can be drawn again alone, whatever shares the batch.
    """

    seed: int
    key: str
    pictures: int
    templates: int
    timesteps: int
    batch: int
    flip: float

    def samples(self, step: int) -> list[Sample]:
        """Draw the pictures of a step: each comes once in an epoch, in an order of the epoch's own."""
        stream = self._stream("sample", step)
        return [self._sample(stream, step * self.batch + place) for place in range(self.batch)]

    def _sample(self, stream: Generator, place: int) -> Sample:
        epoch, position = divmod(place, self.pictures)
        order = torch.randperm(self.pictures, generator=self._stream("order", epoch))
        return Sample(
            picture=int(order[position]),
            mirrored=bool(torch.rand(1, generator=stream) < self.flip),
            template=int(torch.randint(self.templates, (1,), generator=stream)),
            timestep=int(torch.randint(self.timesteps, (1,), generator=stream)),
        )

    def noise(self, step: int, shape: tuple[int, ...]) -> Tensor:
        """Draw the noise (batch, ...) of a step on the CPU in float32: equal on every device."""
        return torch.randn(self.batch, *shape, generator=self._stream("noise", step))

    def _stream(self, purpose: str, number: int) -> Generator:
        # A hash, as sums of seed, class and step would give one class what another has a step later.
        told = json.dumps([self.seed, self.key, purpose, number]).encode()
        return Generator().manual_seed(int.from_bytes(hashlib.sha256(told).digest()[:8]) >> 1)


@dataclass(frozen=True)
class Learning:
    """How far a class has come after ``step`` steps: its vectors (k, D) and Adam's moments of them."""

    vectors: Tensor
    first: Tensor
    second: Tensor
    step: int = 0

    @classmethod
    def start(cls, initial: Tensor) -> Learning:
        """Start from the vectors (k, D) of the initialiser."""
        return cls(initial, torch.zeros_like(initial), torch.zeros_like(initial))


@dataclass(frozen=True)
class Lesson:
    """A class to train until step ``until``: where it started and stands, and what is drawn for it.

    ``latents`` gives the clean latents (C, H, W) of a sample, ``prompt`` the number of its prompt.
    """

    draws: Draws
    initial: Tensor
    state: Learning
    until: int
    latents: Callable[[Sample], Tensor]
    prompt: Callable[[Sample], int] = attrgetter("template")


@dataclass(frozen=True)
class Learned:
    """What a lesson came to, and its loss at each step; ``broken`` if a number of it was not finite."""

    state: Learning
    losses: tuple[float, ...] = ()
    broken: bool = False
