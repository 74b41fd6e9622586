"""Null-text inversion: optimise each step's unconditional embedding (Mokady et al. 2022, algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from faultline_core.editing.ddim import ddim_inversion, guide, predict, step
from faultline_core.editing.denoiser import Cancellation, Denoiser, never, raise_if_cancelled
from faultline_core.editing.inversion import Inverted
from faultline_core.editing.noise_schedule import Timetable

# Adam's own defaults, with which null-text inversion was published.
BETA_FIRST, BETA_SECOND, EPSILON = 0.9, 0.999, 1e-8
TOLERANCE_GROWTH = 2e-5
"""Added to the tolerance at each outer step."""
LEARNING_RATE_HORIZON = 100.0
"""The learning rate falls as 1 - step / horizon."""


@dataclass(frozen=True, kw_only=True)
class NullTextSettings:
    """Knobs of the optimisation; the defaults are the published ones."""

    guidance: float = 7.5
    inner_steps: int = 10
    learning_rate: float = 1e-2
    tolerance: float = 1e-5

    def learning_rate_at(self, index: int) -> float:
        """Learning rate of outer step ``index``."""
        # Published for 50 steps: past its horizon the line would turn negative and climb the loss.
        return self.learning_rate * max(1.0 - index / LEARNING_RATE_HORIZON, 0.0)

    def tolerance_at(self, index: int) -> float:
        """Mean squared error under which a picture leaves outer step ``index``."""
        return self.tolerance + index * TOLERANCE_GROWTH


@dataclass(frozen=True)
class _OuterStep:
    """What outer step ``index`` holds fixed for the pictures still optimised (rows of equal order)."""

    denoiser: Denoiser
    table: Timetable
    index: int
    guidance: float
    latents: Tensor
    cond: Tensor
    wanted: Tensor

    def losses_and_gradient(self, null: Tensor) -> tuple[Tensor, Tensor]:
        """Mean squared error of each picture's guided step (B,), and its gradient in its own embedding."""
        with torch.enable_grad():
            leaf = null.detach().requires_grad_()
            uncond = predict(self.denoiser, self.table, self.index, self.latents, leaf)
            reached = step(self.table, self.index, self.latents, guide(uncond, self.cond, self.guidance))
            losses = (reached - self.wanted).square().flatten(1).mean(dim=1)
            # Rows share nothing, so the gradient of the sum holds each picture's own, in one backward pass.
            (gradient,) = torch.autograd.grad(losses.sum(), leaf)
        return losses.detach(), gradient

    def keep(self, rows: Tensor) -> _OuterStep:
        """Go on with some of the pictures."""
        return _OuterStep(
            self.denoiser, self.table, self.index, self.guidance,
            self.latents[rows], self.cond[rows], self.wanted[rows],
        )  # fmt: skip


def _adam_update(
    first: Tensor, second: Tensor, gradient: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return new moments and the direction to step against after ``count`` gradients (Kingma, Ba 2015)."""
    # Written out because pictures leave the batch one by one: torch's optimiser keeps its moments by
    # parameter and cannot give up rows. All that remain have taken equally many steps, so one count serves.
    first = BETA_FIRST * first + (1.0 - BETA_FIRST) * gradient
    second = BETA_SECOND * second + (1.0 - BETA_SECOND) * gradient.square()
    spread = (second / (1.0 - BETA_SECOND**count)).sqrt() + EPSILON
    return first, second, first / (1.0 - BETA_FIRST**count) / spread


def _optimise(
    outer: _OuterStep, null: Tensor, settings: NullTextSettings, cancelled: Cancellation
) -> tuple[Tensor, Tensor]:
    """Run the inner iterations of one outer step; return embeddings (B, L, D) and their counts (B,).

    A picture leaves the batch after the update whose loss was under the tolerance, as published; one look
    at all losses together is the only synchronisation with the device in an iteration.
    """
    # Rows are written in place, and the step before has this very tensor among its results.
    null = null.clone()
    counts = torch.zeros(null.shape[0], dtype=torch.int64)
    active = torch.arange(null.shape[0], device=null.device)
    first, second = torch.zeros_like(null), torch.zeros_like(null)
    for iteration in range(1, settings.inner_steps + 1):
        raise_if_cancelled(cancelled)
        losses, gradient = outer.losses_and_gradient(null[active])
        first, second, direction = _adam_update(first, second, gradient, iteration)
        null[active] = null[active] - settings.learning_rate_at(outer.index) * direction
        counts[active.cpu()] = iteration
        # "Not below" rather than "at least": NaN compares false both ways and must not count as converged.
        going_on = (~(losses < settings.tolerance_at(outer.index))).nonzero().flatten()
        if going_on.numel() == 0:
            break
        # Rows are dropped only when one has ended: indexing copies the latents.
        if going_on.numel() < active.numel():
            active, first, second = active[going_on], first[going_on], second[going_on]
            outer = outer.keep(going_on)
    return null, counts


@torch.no_grad()
def null_text_inversion(
    denoiser: Denoiser,
    table: Timetable,
    clean: Tensor,
    text: Tensor,
    null: Tensor,
    settings: NullTextSettings,
    *,
    cancelled: Cancellation = never,
) -> Inverted:
    """Invert (B, C, H, W) given captions (B, L, D) and the empty prompt (L, D).

    Pictures share the network calls but nothing else: each has its own embedding, optimiser state and
    early stop. Only the embedding gets a gradient, so freeze the weights.
    """
    wanted = ddim_inversion(denoiser, table, clean, text, cancelled=cancelled)
    latents, current = wanted[:, 0], null.expand(clean.shape[0], *null.shape)
    visited, nulls, counts = [latents], [], []
    for index in range(table.steps):
        raise_if_cancelled(cancelled)
        # Without the null text in it, so once a step and not once an inner iteration.
        cond = predict(denoiser, table, index, latents, text)
        outer = _OuterStep(denoiser, table, index, settings.guidance, latents, cond, wanted[:, index + 1])
        # Each step starts from the embedding the step before ended with (algorithm 1).
        current, iterations = _optimise(outer, current, settings, cancelled)
        uncond = predict(denoiser, table, index, latents, current)
        latents = step(table, index, latents, guide(uncond, cond, settings.guidance))
        visited.append(latents)
        nulls.append(current)
        counts.append(iterations)
    return Inverted(torch.stack(visited, 1), torch.stack(nulls, 1), torch.stack(counts, 1))
