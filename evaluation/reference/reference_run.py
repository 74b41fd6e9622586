"""Everything LANCE does with one image, in two parity modes: as its released code, and as the paper.

The source branch is computed again for each sweep value, no attention is fused, and each network evaluation
of the reference is made: the counts are the reference's cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from counterpose_core.editing.denoiser import AttentionControl, Denoiser
from counterpose_core.types import InjectionEnd
from evaluation.reference.plain_editing import NullText, Target, invert, null_text, prompt_to_prompts

Parity = Literal["released", "paper"]

SWEEPS: dict[Parity, tuple[float, ...]] = {
    "released": (0.4, 0.5, 0.6, 0.7, 0.8),
    "paper": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
}
"""Fractions of the steps with self-attention injected: of the released code, and of the paper's Table 6."""

REPLACES: dict[Parity, bool] = {"released": False, "paper": True}
"""Whether a new word takes over the map of the word it stands for; the released code always refines."""


@dataclass(frozen=True)
class ReferenceRun:
    """``images[value]`` (E, C, H, W) are the edits at one sweep value; local blend acts in neither mode."""

    inversion: NullText
    reconstruction: Tensor
    images: list[Tensor]


def reference_run(
    model: Denoiser,
    clean: Tensor,
    text: Tensor,
    null: Tensor,
    targets: Sequence[Target],
    *,
    parity: Parity,
    steps: int = 50,
    guidance: float = 7.5,
    cross_replace: float = 0.8,
    inner_steps: int = 10,
    tolerance: float = 1e-5,
    velocity: bool = False,
    sweep: Sequence[float] | None = None,
    injection_end: InjectionEnd = "exact",
) -> ReferenceRun:
    """Invert one image (1, C, H, W), reconstruct it, and edit it once for each target and sweep value."""
    with torch.no_grad():
        path = invert(model, clean, text, steps, velocity=velocity)
    inversion = null_text(
        model, path, text, null, guidance=guidance, inner_steps=inner_steps, tolerance=tolerance,
        velocity=velocity,
    )  # fmt: skip

    # int(f (N + 1)) and int(f N), as the released attention control has them.
    floor = math.floor if injection_end == "released" else whole
    cross_steps = floor(cross_replace * (steps + 1 if injection_end == "released" else steps))

    def denoised(chosen: Sequence[Target], self_replace: float) -> Tensor:
        return prompt_to_prompts(
            model, path, text, inversion.embeddings, chosen, guidance=guidance, velocity=velocity,
            cross_steps=cross_steps, self_steps=floor(self_replace * steps),
        )  # fmt: skip

    reconstruction = denoised([], 0.0)
    images = []
    for number, value in enumerate(SWEEPS[parity] if sweep is None else sweep):
        # The released code passes its weights to the sweep as a generator: empty after the first value.
        unweighted = parity == "released" and number > 0
        chosen = [replace(target, gains={}) if unweighted else target for target in targets]
        images.append(denoised(chosen, value)[1:])
    return ReferenceRun(inversion, reconstruction, images)


class Tally:
    """A network that counts its calls, and the samples it evaluates forward and backward."""

    def __init__(self, model: Denoiser) -> None:
        self._model = model
        self.calls = self.forward = self.backward = 0

    @property
    def evaluations(self) -> int:
        """F: a backward pass through inputs and weights costs two forward ones."""
        return self.forward + 2 * self.backward

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        """Predict for latents (B, C, H, W) at timestep (B,) given text (B, L, D)."""
        self.calls += 1
        self.forward += len(latents)
        self.backward += len(latents) if torch.is_grad_enabled() else 0
        return self._model(latents, timestep, text, control)


def whole(steps: float) -> int:
    """Round down, but treat 0.7 times 10 as 7, not as 6.999..."""
    return math.floor(round(steps, 6))


def reference_evaluations(*, steps: int, inner: float, sweep: int, edits: int) -> float:
    """F of one image by the cost model: 50 + 150 + 3 J + 100 + 100 S (1 + E) at fifty steps."""
    return steps * (1 + 3) + 3 * inner + 2 * steps + 2 * steps * sweep * (1 + edits)


def reference_calls(*, steps: int, inner: float, sweep: int) -> float:
    """Network calls of one image, its edits in one batch: 50 + 100 + J + 50 + 50 S at fifty steps."""
    return steps * (1 + 2) + inner + steps + steps * sweep


def chosen_value(passes: Sequence[bool], directions: Sequence[float], parity: Parity) -> int | None:
    """Choose the sweep value that is kept, given which pass the filters and their CLIP directions."""
    kept, best = None, -math.inf
    for number, (passed, direction) in enumerate(zip(passes, directions, strict=True)):
        if parity == "released":
            best = -math.inf  # reset inside the loop, as released: every passing value wins
        if passed and direction > best:
            kept, best = number, direction
    return kept
