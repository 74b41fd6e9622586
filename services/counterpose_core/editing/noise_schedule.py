"""The noise levels that a model was trained on, and those that sampling visits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from counterpose_core.errors import InvalidRequest
from counterpose_core.injection_steps import leading_steps
from counterpose_core.types import InjectionEnd, TimestepSpacing

BetaSchedule = Literal["linear", "scaled_linear"]
PredictionType = Literal["epsilon", "v_prediction"]

DISTILLED_STEPS = 50
"""Number of steps that latent consistency models were distilled on (Luo et al. 2023)."""


@dataclass(frozen=True)
class NoiseSchedule:
    """Training noise levels; the defaults are those of Stable Diffusion 1.4 (and of LANCE's Table 6).

    ``trained_betas``, one per training step, precede start, end and kind of the betas.
    """

    train_steps: int = 1000
    beta_start: float = 0.00085
    beta_end: float = 0.012
    beta_schedule: BetaSchedule = "scaled_linear"
    prediction: PredictionType = "epsilon"
    steps_offset: int = 1
    set_alpha_to_one: bool = False
    spacing: TimestepSpacing = "leading"
    distilled_steps: int = DISTILLED_STEPS
    trained_betas: tuple[float, ...] | None = None

    def alphas_cumprod(self) -> torch.Tensor:
        """Return the signal's share of the variance at each training step, (train_steps,) float64."""
        # float64, because steps divide by small differences of products of a thousand factors.
        if self.trained_betas is not None:
            betas = torch.tensor(self.trained_betas, dtype=torch.float64)
        elif self.beta_schedule == "linear":
            betas = torch.linspace(self.beta_start, self.beta_end, self.train_steps, dtype=torch.float64)
        else:
            # "Scaled" linear means linear in the square root, as in the training of Stable Diffusion.
            root = torch.linspace(
                self.beta_start**0.5, self.beta_end**0.5, self.train_steps, dtype=torch.float64
            )
            betas = root**2
        return torch.cumprod(1.0 - betas, dim=0)

    def timetable(self, steps: int, spacing: TimestepSpacing | None = None) -> Timetable:
        """Choose ``steps`` timesteps from noise to clean, as diffusers' DDIM scheduler does.

        ``spacing`` replaces the schedule's own. It matters with few steps: "leading" starts below pure noise
        and uses its last evaluation on an image that is already clean; "trailing" does neither.

        Raises:
            InvalidRequest: there are more steps than the model was trained or distilled on.
        """
        if not 1 <= steps <= self.train_steps:
            raise InvalidRequest(f"steps must be between 1 and {self.train_steps}, not {steps!r}")
        chosen = self._spaced(steps, spacing or self.spacing)
        alphas = self.alphas_cumprod()
        levels = [float(alphas[t]) for t in chosen]
        # Stable Diffusion was not trained at a fully clean level, so the last step ends at its first level.
        final = 1.0 if self.set_alpha_to_one else float(alphas[0])
        return Timetable(tuple(chosen), (*levels, final), self.prediction)

    def _spaced(self, steps: int, spacing: TimestepSpacing) -> list[int]:
        ratio = self.train_steps / steps
        if spacing == "leading":
            offset = self.steps_offset
            # With as many steps as in training, the offset would go beyond the noisiest level.
            return [
                min(i * (self.train_steps // steps) + offset, self.train_steps - 1) for i in range(steps)
            ][::-1]
        if spacing == "distilled":
            return self._distilled(steps)
        if spacing == "trailing":
            return [round(self.train_steps - i * ratio) - 1 for i in range(steps)]
        spread = torch.linspace(0, self.train_steps - 1, steps, dtype=torch.float64).round()
        return [int(t) for t in spread.flip(0)]

    def _distilled(self, steps: int) -> list[int]:
        """Choose among the steps of the distillation, noisiest first."""
        if steps > self.distilled_steps:
            raise InvalidRequest(
                f"steps must be at most the {self.distilled_steps} the model was distilled on, not {steps!r}"
            )
        width = self.train_steps // self.distilled_steps
        known = [width * (step + 1) - 1 for step in reversed(range(self.distilled_steps))]
        return [known[i * self.distilled_steps // steps] for i in range(steps)]


@dataclass(frozen=True)
class Timetable:
    """``steps`` timesteps from noise to clean, and the ``steps + 1`` signal levels before and after them."""

    timesteps: tuple[int, ...]
    levels: tuple[float, ...]
    prediction: PredictionType

    @property
    def steps(self) -> int:
        """Number of denoising steps."""
        return len(self.timesteps)

    def first(self, fraction: float, end: InjectionEnd = "exact") -> int:
        """Return the number of leading steps that make up ``fraction`` of all."""
        return leading_steps(fraction, self.steps, end)
