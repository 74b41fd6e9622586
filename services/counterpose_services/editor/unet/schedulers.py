"""A diffusers scheduler, by its class name, for the walk of one batch of images."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import diffusers
import torch
from torch import Generator, Tensor

from counterpose_core.errors import InvalidRequest
from counterpose_core.types import Scheduler


class DiffusersScheduler:
    """A scheduler for one walk, with the noise levels and the prediction type of a model's configuration.

    Its random draws come from the images' ``generators``, one per image, after their starting noise: an image
    depends on its seed alone, and no step repeats that noise.
    """

    def __init__(
        self,
        name: Scheduler,
        config: Mapping[str, Any],
        *,
        steps: int,
        generators: Sequence[Generator],
        device: torch.device,
    ) -> None:
        self._scheduler = getattr(diffusers, name).from_config(dict(config))
        try:
            self._scheduler.set_timesteps(steps, device=device)
        except ValueError as error:
            raise InvalidRequest(
                f"{name!r} takes no {steps} steps here: {error}", pointer="/steps"
            ) from error
        self.timesteps: tuple[float, ...] = tuple(self._scheduler.timesteps.tolist())
        # Schedulers without random draws take no generator. Other options, such as eta, keep their defaults.
        takes = inspect.signature(self._scheduler.step).parameters
        self._drawing = {"generator": list(generators)} if "generator" in takes else {}

    def begin(self, noise: Tensor) -> Tensor:
        """Scale unit noise to the first noise level."""
        started: Tensor = noise * self._scheduler.init_noise_sigma
        return started

    def seen(self, latents: Tensor, index: int) -> Tensor:
        """Scale latents to the network's input."""
        scaled: Tensor = self._scheduler.scale_model_input(latents, self._scheduler.timesteps[index])
        return scaled

    def advance(self, latents: Tensor, output: Tensor, index: int) -> Tensor:
        """Return the latents after a step."""
        timestep = self._scheduler.timesteps[index]
        stepped: Tensor = self._scheduler.step(output, timestep, latents, return_dict=False, **self._drawing)[
            0
        ]
        return stepped
