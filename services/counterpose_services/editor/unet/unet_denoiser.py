"""A diffusers UNet as the core's Denoiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from counterpose_core.editing.denoiser import AttentionControl
from counterpose_core.editing.noise_schedule import (
    DISTILLED_STEPS,
    BetaSchedule,
    NoiseSchedule,
    PredictionType,
)
from counterpose_core.errors import ModelFormatRefused
from counterpose_core.types import TimestepSpacing
from counterpose_services.editor.step_engine.mode import OWN_MODE, Mode
from counterpose_services.editor.unet.added_conditions import AddedConditions
from counterpose_services.editor.unet.attention_processors import attach
from counterpose_services.editor.unet.inpainting import Inpainting
from counterpose_services.editor.unet.schedulers import LEVEL_TOLERANCE, own_scheduler

if TYPE_CHECKING:
    from diffusers import UNet2DConditionModel

GUIDANCE_SCALE = 1000.0
LONGEST_PERIOD = 10000.0
TRAINED_STRIDE = 8
"""Pixels a position of the latents, at each side, of every published autoencoder."""


class UNetDenoiser:
    """A UNet with frozen weights; it computes in its own precision and returns that of the latents.

    ``side`` is the side of the images in pixels, which Stable Diffusion XL is told; by default, the one that
    the UNet was trained for. ``inpainting`` says what an inpainting checkpoint takes beside the latents.
    """

    def __init__(
        self, unet: UNet2DConditionModel, side: int | None = None, inpainting: Inpainting | None = None
    ) -> None:
        self.inpainting = inpainting
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

        Stable Diffusion XL takes text (B, L + 1, D) whose last row has the pooled embedding; at the end of an
        inpainting checkpoint's may be its conditions.
        """
        dtype, given = self._unet.dtype, latents
        if self.inpainting is not None:
            text, beside = self.inpainting.split(text)
            given = torch.cat([latents, beside.to(latents)], dim=1)
        words, added = (text.to(dtype), None) if self._added is None else self._added.split(text.to(dtype))
        inputs = given.to(dtype), timestep, words
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


def schedule_from_config(config: Mapping[str, Any]) -> NoiseSchedule:
    """Read the noise levels from the configuration of any diffusers scheduler; Counterpose samples with DDIM.

    Missing fields have the defaults of the configuration's class, without a class `DDIMScheduler`'s. The
    `LCMScheduler` of a few-step model has no spacing of its own: it uses a subset of the steps that the model
    was distilled on.

    Raises:
        ModelFormatRefused: diffusers cannot make the scheduler, or its levels, its prediction or its spacing
            are none that edits can use; the message names what.
    """
    own = own_scheduler(config)
    read, name = dict(own.config), type(own).__name__
    few_steps = name == "LCMScheduler"
    spacing: Any = "distilled" if few_steps else read.get("timestep_spacing", "leading")
    usable = {
        "prediction_type": (read.get("prediction_type", "epsilon"), get_args(PredictionType)),
        "timestep_spacing": (spacing, get_args(TimestepSpacing)),
        "use_flow_sigmas": (read.get("use_flow_sigmas", False), (False,)),
    }
    for field, (value, values) in usable.items():
        if value not in values:
            raise ModelFormatRefused(
                f"{field} of the scheduler {name!r} is {value!r}; edits support only "
                f"{' or '.join(map(repr, values))}"
            )
    kind = read.get("beta_schedule", "linear")
    formula = kind in get_args(BetaSchedule) and not (
        read.get("trained_betas") or read.get("rescale_betas_zero_snr")
    )
    schedule = NoiseSchedule(
        train_steps=read["num_train_timesteps"],
        beta_start=read.get("beta_start", 0.0001),
        beta_end=read.get("beta_end", 0.02),
        beta_schedule=kind if formula else "linear",
        prediction=read.get("prediction_type", "epsilon"),
        steps_offset=read.get("steps_offset", 0),
        set_alpha_to_one=read.get("set_alpha_to_one", True),
        spacing=spacing,
        distilled_steps=read.get("original_inference_steps", DISTILLED_STEPS),
        # The library's own: it has more kinds than are worth a formula here.
        trained_betas=None if formula else tuple(own.betas.tolist()),
    )
    _require_levels(schedule, own.alphas_cumprod, name)
    return schedule


def _require_levels(schedule: NoiseSchedule, theirs: Tensor, name: str) -> None:
    ours = schedule.alphas_cumprod()
    if len(ours) != schedule.train_steps or not bool(((ours >= 0.0) & (ours <= 1.0)).all()):
        raise ModelFormatRefused(
            f"the scheduler {name!r} has {len(ours)} noise levels for {schedule.train_steps} training steps, "
            "or some that are not between 0 and 1; correct its scheduler_config.json"
        )
    if not torch.allclose(ours, theirs.double(), atol=LEVEL_TOLERANCE, rtol=0.0):
        raise ModelFormatRefused(
            f"the scheduler {name!r} shifts its noise levels, which no edit knows; use a model of Stable "
            "Diffusion 1, 2 or XL (base)"
        )
    if float(ours[-1]) == 0.0 and schedule.prediction == "epsilon":
        raise ModelFormatRefused(
            f"the scheduler {name!r} begins without any signal (rescale_betas_zero_snr), where a prediction "
            "of noise says nothing; such a model predicts 'v_prediction'"
        )
