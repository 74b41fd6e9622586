"""diffusers' schedulers by their class names: the one of a configuration, and one for the walk of a batch."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import diffusers
import torch
from diffusers.schedulers.scheduling_utils import SchedulerMixin
from torch import Generator, Tensor

from counterpose_core.errors import InvalidRequest, ModelFormatRefused
from counterpose_core.types import Scheduler

LEVEL_TOLERANCE = 1e-6
"""Between signal levels of two schedulers; the library computes them in float32."""


def own_scheduler(config: Mapping[str, Any]) -> Any:
    """Make the scheduler of a configuration: its own class, without a name `DDIMScheduler`.

    Raises:
        ModelFormatRefused: diffusers has no such class, refuses the configuration, or noises in another way
            than by a schedule of betas.
    """
    name = config.get("_class_name", "DDIMScheduler")
    kind = getattr(diffusers, name, None) if isinstance(name, str) else None
    if not isinstance(kind, type) or not issubclass(kind, SchedulerMixin):
        raise ModelFormatRefused(
            f"diffusers has no scheduler {name!r} here; save the model with another scheduler"
        )
    try:
        scheduler = cast(Any, kind).from_config(dict(config))
    # Whatever a class does with a value that it does not expect.
    except Exception as error:
        raise ModelFormatRefused(f"diffusers refuses the configuration of {name!r}: {error}") from error
    if not isinstance(getattr(scheduler, "alphas_cumprod", None), Tensor):
        raise ModelFormatRefused(
            f"the scheduler {name!r} noises in another way than by betas, which no edit knows; use a model "
            "of Stable Diffusion 1, 2 or XL (base)"
        )
    return scheduler


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
        try:
            self._scheduler = own_scheduler({**config, "_class_name": name})
        except ModelFormatRefused as error:
            raise InvalidRequest(
                f"this model's configuration does not work with the scheduler asked for: {error.detail}; ask "
                "for another one",
                pointer="/scheduler",
            ) from error
        levels = own_scheduler(config).alphas_cumprod
        if not torch.allclose(self._scheduler.alphas_cumprod, levels, atol=LEVEL_TOLERANCE):
            raise InvalidRequest(
                f"{name!r} cannot compute the noise levels that the model was trained on; ask for another "
                "scheduler",
                pointer="/scheduler",
            )
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
