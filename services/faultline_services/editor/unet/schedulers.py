"""A scheduler of diffusers, by its class name, as the walk of one batch of images wants it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

# Before anything that imports torchvision.
from faultline_core import torchvision_operators  # noqa: F401

# isort: split
import diffusers
import torch
from torch import Generator, Tensor

from faultline_core.errors import InvalidRequest
from faultline_core.types import Scheduler


class DiffusersScheduler:
    """One instance for one walk, with the noise levels and the prediction of a model's own configuration.

    What it draws on the way comes from the ``generators`` of the images, one each, which have drawn their
    starting noise before: an image depends on its seed alone, and no step sees that noise again.
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
            told = f"{name!r} takes no {steps} steps here: {error}"
            raise InvalidRequest(told, pointer="/steps") from error
        self.timesteps: tuple[float, ...] = tuple(self._scheduler.timesteps.tolist())
        # Those that draw nothing take no generator. Other knobs, as eta, keep the scheduler's own default.
        takes = inspect.signature(self._scheduler.step).parameters
        self._drawing = {"generator": list(generators)} if "generator" in takes else {}

    def begin(self, noise: Tensor) -> Tensor:
        """Scale unit noise to the first level's."""
        started: Tensor = noise * self._scheduler.init_noise_sigma
        return started

    def seen(self, latents: Tensor, index: int) -> Tensor:
        """Scale latents to what the network was trained on."""
        scaled: Tensor = self._scheduler.scale_model_input(latents, self._scheduler.timesteps[index])
        return scaled

    def advance(self, latents: Tensor, output: Tensor, index: int) -> Tensor:
        """Take a step."""
        timestep = self._scheduler.timesteps[index]
        stepped: Tensor = self._scheduler.step(output, timestep, latents, return_dict=False, **self._drawing)[
            0
        ]
        return stepped
