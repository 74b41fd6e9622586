"""The training of one class's token: its samples at each step, its state and its result.

The samples depend only on the seed, the class's name and the step, so no generator state is carried over.
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
    """One training sample: the index of its image, whether it is mirrored, its template and its timestep."""

    image: int
    mirrored: bool
    template: int
    timestep: int


@dataclass(frozen=True, kw_only=True)
class SampleStream:
    """The random samples of one class with ``images`` images, ``batch`` samples per step.

    ``key`` names the class. Any step can be drawn again separately, independently of other classes.
    ``flip`` is the probability that an image is mirrored.
    """

    seed: int
    key: str
    images: int
    templates: int
    timesteps: int
    batch: int
    flip: float

    def samples(self, step: int) -> list[Sample]:
        """Draw the samples of a step; each image occurs once per epoch, in an order that differs by epoch."""
        stream = self._stream("sample", step)
        return [self._sample(stream, step * self.batch + place) for place in range(self.batch)]

    def _sample(self, stream: Generator, place: int) -> Sample:
        epoch, position = divmod(place, self.images)
        order = torch.randperm(self.images, generator=self._stream("order", epoch))
        return Sample(
            image=int(order[position]),
            mirrored=bool(torch.rand(1, generator=stream) < self.flip),
            template=int(torch.randint(self.templates, (1,), generator=stream)),
            timestep=int(torch.randint(self.timesteps, (1,), generator=stream)),
        )

    def noise(self, step: int, shape: tuple[int, ...]) -> Tensor:
        """Draw the noise (batch, ...) of a step on the CPU in float32: equal on every device."""
        return torch.randn(self.batch, *shape, generator=self._stream("noise", step))

    def _stream(self, purpose: str, number: int) -> Generator:
        # A hash, because a sum of seed, class and step would repeat samples in another class a step later.
        named = json.dumps([self.seed, self.key, purpose, number]).encode()
        return Generator().manual_seed(int.from_bytes(hashlib.sha256(named).digest()[:8]) >> 1)


@dataclass(frozen=True)
class Learning:
    """The state of training after ``step`` steps: the vectors (k, D) and their Adam moments."""

    vectors: Tensor
    first: Tensor
    second: Tensor
    step: int = 0

    @classmethod
    def start(cls, initial: Tensor) -> Learning:
        """Return the state at step 0, with the vectors (k, D) of the initialiser."""
        return cls(initial, torch.zeros_like(initial), torch.zeros_like(initial))


@dataclass(frozen=True)
class TokenTask:
    """A class to train until step ``until``, from its current state, with its stream of samples.

    ``latents`` returns the clean latents (C, H, W) of a sample, ``prompt`` the index of its prompt.
    """

    stream: SampleStream
    initial: Tensor
    state: Learning
    until: int
    latents: Callable[[Sample], Tensor]
    prompt: Callable[[Sample], int] = attrgetter("template")


@dataclass(frozen=True)
class Learned:
    """The state after a task and the loss at each step; ``broken`` if a loss or vector is not finite."""

    state: Learning
    losses: tuple[float, ...] = ()
    broken: bool = False
