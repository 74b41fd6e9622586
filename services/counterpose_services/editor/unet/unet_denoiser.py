"""A diffusers UNet as the core's Denoiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from counterpose_core.editing.denoiser import AttentionControl
from counterpose_core.editing.noise_schedule import DISTILLED_STEPS, NoiseSchedule
from counterpose_services.editor.step_engine.mode import OWN_MODE, Mode
from counterpose_services.editor.unet.added_conditions import AddedConditions
from counterpose_services.editor.unet.attention_processors import attach

if TYPE_CHECKING:
    from diffusers import UNet2DConditionModel

GUIDANCE_SCALE = 1000.0
LONGEST_PERIOD = 10000.0
TRAINED_STRIDE = 8
"""Pixels a position of the latents, at each side, of every published autoencoder."""


class UNetDenoiser:
    """A UNet with frozen weights; it computes in its own precision and returns that of the latents.

    ``side`` is the side of the images in pixels, which Stable Diffusion XL is told; by default, the one that
    the UNet was trained for.
    """

    def __init__(self, unet: UNet2DConditionModel, side: int | None = None) -> None:
        self._unet = unet.eval().requires_grad_(requires_grad=False)
        self._seat = attach(unet)
        self._width: int | None = unet.config.time_cond_proj_dim
        trained = TRAINED_STRIDE * unet.config.sample_size if side is None else side
        self._added = AddedConditions.of(unet.config, trained)
        self._mode = OWN_MODE
        self._compiled: Callable[..., tuple[Tensor]] | None = None

    def compile(self, backend: str | Callable[..., object] = "inductor") -> None:
        """Compile the network for calls without attention control and gradient, for any number of rows.

        The first such call takes about a minute. Numbers of rows share a few graphs: torch and diffusers
        compute differently for one row, for few, and from 64 on, and the first call of each compiles.
        Controlled calls and gradients stay as they are: a control replaces the attention call by call.
        """
        self._unet.to(memory_format=torch.channels_last)
        # Not ``dynamic=True``: with sizes and text lengths unknown too, it took over four minutes on an H100.
        self._compiled = torch.compile(self._unet, backend=backend)

    @property
    def precision(self) -> str:
        """The type of the weights, such as ``float32``."""
        return str(self._unet.dtype).removeprefix("torch.")

    @property
    def takes_guidance(self) -> bool:
        """Whether guidance is an input of the network instead of a mix of two evaluations."""
        return self._width is not None

    def guided(self, guidance: float) -> tuple[Mode, float]:
        """Return the mode for a guidance scale, and the scale that is left to apply between two evaluations.

        What is left is 1 where guidance is an input of the network.
        """
        return (Mode(), guidance) if self._width is None else (Mode(guidance=guidance), 1.0)

    @contextmanager
    def in_mode(self, mode: Mode) -> Iterator[None]:
        """Compute in ``mode`` within the context; the original weights are always restored afterwards."""
        self._mode = mode
        try:
            if mode.float32:
                with self._in_float32():
                    yield
            else:
                yield
        finally:
            self._mode = OWN_MODE

    @contextmanager
    def _in_float32(self) -> Iterator[None]:
        # Restored rather than cast back: this is exact, and graphs captured over them stay valid.
        kept = [(part, part.data) for part in [*self._unet.parameters(), *self._unet.buffers()]]
        try:
            for part, data in kept:
                part.data = data.float() if data.is_floating_point() else data
            yield
        finally:
            for part, data in kept:
                part.data = data

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        """Predict for latents (B, C, H, W) at timestep (B,) given text (B, L, D).

        Stable Diffusion XL takes text (B, L + 1, D) whose last row has the pooled embedding.
        """
        dtype = self._unet.dtype
        words, added = (text.to(dtype), None) if self._added is None else self._added.split(text.to(dtype))
        inputs = latents.to(dtype), timestep, words
        network: Callable[..., tuple[Tensor]] = self._unet
        if self._compiled is not None and control is None and self._is_plain(text):
            network = self._compiled
            _let_rows_vary(*inputs)
        with self._seat.taken_by(control):
            output: Tensor = network(
                *inputs,
                timestep_cond=self._condition(latents.shape[0]),
                added_cond_kwargs=added,
                return_dict=False,
            )[0]
        return output.to(latents.dtype)

    def _is_plain(self, text: Tensor) -> bool:
        # In float32 it would be compiled once more, for a few calls.
        return not self._mode.float32 and not (torch.is_grad_enabled() and text.requires_grad)

    def _condition(self, rows: int) -> Tensor | None:
        if self._width is None:
            return None
        embedded = guidance_embedding(self._mode.guidance, self._width)
        return embedded.to(self._unet.device, self._unet.dtype).expand(rows, -1)


def _let_rows_vary(*inputs: Tensor) -> None:
    # Imported here: it takes a second, and few processes compile.
    from torch._dynamo import maybe_mark_dynamic

    for tensor in inputs:
        maybe_mark_dynamic(tensor, 0)


def guidance_embedding(guidance: float, width: int) -> Tensor:
    """Embed a guidance scale into (1, width) float32: sines, then cosines, of w - 1 (Meng et al. 2023).

    Guidance 1, which is the conditional output alone, is embedded as 0.
    """
    half = width // 2
    exponents = torch.arange(half, dtype=torch.float32) * -(math.log(LONGEST_PERIOD) / (half - 1))
    angles = GUIDANCE_SCALE * (guidance - 1.0) * torch.exp(exponents)
    embedded = torch.cat([torch.sin(angles), torch.cos(angles)])
    return torch.nn.functional.pad(embedded, (0, width % 2))[None]


def schedule_from_config(config: dict[str, Any]) -> NoiseSchedule:
    """Read the noise levels from the configuration of any diffusers scheduler; Counterpose samples with DDIM.

    Missing fields have diffusers' defaults. The `LCMScheduler` of a few-step model has no spacing field: it
    uses a subset of the steps that the model was distilled on.
    """
    few_steps = config.get("_class_name") == "LCMScheduler"
    return NoiseSchedule(
        train_steps=config.get("num_train_timesteps", 1000),
        beta_start=config.get("beta_start", 0.0001),
        beta_end=config.get("beta_end", 0.02),
        beta_schedule=config.get("beta_schedule", "linear"),
        prediction=config.get("prediction_type", "epsilon"),
        steps_offset=config.get("steps_offset", 0),
        set_alpha_to_one=config.get("set_alpha_to_one", True),
        spacing="distilled" if few_steps else config.get("timestep_spacing", "leading"),
        distilled_steps=config.get("original_inference_steps", DISTILLED_STEPS),
    )
