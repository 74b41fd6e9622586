"""Null-text inversion: optimise each step's unconditional embedding (Mokady et al. 2022, algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from counterpose_core.editing.adam import adam_update
from counterpose_core.editing.branches import Branches, SourceRows
from counterpose_core.editing.driver.evaluation import Evaluation, Objective, Owner, Walk
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.noise_schedule import Timetable
from counterpose_core.editing.solvers.ddim import ddim_inversion_walk, guide, sampled, step, step_coefficients

TOLERANCE_GROWTH = 2e-5
"""The tolerance grows by this at each outer step."""
LEARNING_RATE_HORIZON = 100.0
"""The learning rate falls as 1 - step / horizon."""


@dataclass(frozen=True, kw_only=True)
class NullTextSettings:
    """Settings of the optimisation; the defaults are the published ones."""

    guidance: float = 7.5
    inner_steps: int = 10
    learning_rate: float = 1e-2
    tolerance: float = 1e-5

    def learning_rate_at(self, index: int) -> float:
        """Return the learning rate of outer step ``index``."""
        # Published for 50 steps: beyond its horizon the rate would be negative and increase the loss.
        return self.learning_rate * max(1.0 - index / LEARNING_RATE_HORIZON, 0.0)

    def tolerance_at(self, index: int) -> float:
        """Return the mean squared error below which an image leaves outer step ``index``."""
        return self.tolerance + index * TOLERANCE_GROWTH


@dataclass(frozen=True)
class _OuterStep:
    """The fixed quantities of outer step ``index``, for the images that are still optimised.

    The guided step misses the target latents by ``scale * output + offset``, which is linear in the network's
    output for the null embedding. ``latents``, ``offset`` and ``owners`` have one row per image.
    """

    table: Timetable
    index: int
    latents: Tensor
    offset: Tensor
    scale: float
    owners: Sequence[Owner]

    @classmethod
    def of(
        cls,
        table: Timetable,
        index: int,
        path: tuple[Tensor, Tensor],
        cond: Tensor,
        guidance: float,
        owners: Sequence[Owner],
    ) -> _OuterStep:
        """Prepare the step between both latents of ``path``, given the outputs ``cond`` for the captions."""
        latents, wanted = path
        a, b = step_coefficients(table.levels[index], table.levels[index + 1], table.prediction)
        # a * latents + b * (u + w * (c - u)) - wanted, collected by powers of the null output u.
        offset = a * latents + b * guidance * cond - wanted
        return cls(table, index, latents, offset, b * (1.0 - guidance), owners)

    def asked(self, null: Tensor, *, read: bool) -> Evaluation:
        """Request the mean squared error of each image, and its gradient in the image's own embedding."""
        asked = sampled(self.table, self.index, self.latents, null, self.owners)
        return replace(asked, objective=Objective(self.scale, self.offset, read))

    def keep(self, rows: Sequence[int]) -> _OuterStep:
        """Return the step for some of the images."""
        chosen = list(rows)
        owners = [self.owners[row] for row in chosen]
        return replace(self, latents=self.latents[chosen], offset=self.offset[chosen], owners=owners)


def _optimise(outer: _OuterStep, null: Tensor, settings: NullTextSettings) -> Walk[tuple[Tensor, Tensor]]:
    """Run the inner iterations of one outer step; return embeddings (B, L, D) and their counts (B,).

    An image leaves the batch after the update whose loss was below the tolerance, as published. Each
    iteration synchronises with the device once, to read all losses together.
    """
    # Rows are written in place, and this tensor is among the results of the previous step.
    null = null.clone()
    counts = torch.zeros(null.shape[0], dtype=torch.int64)
    active = list(range(null.shape[0]))
    first, second = torch.zeros_like(null), torch.zeros_like(null)
    for iteration in range(1, settings.inner_steps + 1):
        last = iteration == settings.inner_steps
        # The loss of the last iteration is not needed.
        (answer,) = yield [outer.asked(null[active], read=not last)]
        assert answer.gradient is not None
        # All remaining images have taken the same number of steps, so one count is enough.
        first, second, direction = adam_update(first, second, answer.gradient, iteration)
        null[active] = null[active] - settings.learning_rate_at(outer.index) * direction
        counts[active] = iteration
        # "Not below" instead of "at least": every comparison with NaN is false, and NaN must not count as
        # converged.
        going_on = [
            row for row, loss in enumerate(answer.values) if not loss < settings.tolerance_at(outer.index)
        ]
        if not going_on:
            break
        # Rows are dropped only if one has converged, because indexing copies the latents.
        if len(going_on) < len(active):
            active, first, second = [active[row] for row in going_on], first[going_on], second[going_on]
            outer = outer.keep(going_on)
    return null, counts


def null_text_walk(
    table: Timetable,
    clean: Tensor,
    text: Tensor,
    null: Tensor,
    settings: NullTextSettings,
    owners: Sequence[Owner],
    branches: Branches,
) -> Walk[Inverted]:
    """Invert images by null-text inversion, and advance ``branches`` of edits in the same walk.

    The optimised branch is the source branch of prompt-to-prompt: its evaluation under the caption serves
    both the inversion and the attention of its edits, so the edits need no evaluation of the source.

    Args:
        table: the noise levels.
        clean: clean latents (B, C, H, W).
        text: the encoded captions (B, L, D).
        null: the encoded empty prompt (L, D).
        settings: the settings of the optimisation.
        owners: the owner of each image, who pays for its evaluations.
        branches: the edits made in the same walk, possibly none.
    """
    wanted = yield from ddim_inversion_walk(table, clean, text, owners)
    latents, current = wanted[:, 0], null.expand(clean.shape[0], *null.shape)
    visited, nulls, counts = [latents], [], []
    for index in range(table.steps):
        branches.part(index, visited[0])
        # It does not depend on the null text: once per step is enough, not once per inner iteration.
        answers = yield branches.conditional(index, SourceRows(latents, text, owners))
        cond = torch.cat([answer.output[:1] for answer in answers])
        path = latents, wanted[:, index + 1]
        outer = _OuterStep.of(table, index, path, cond, settings.guidance, owners)
        # Each step starts from the final embedding of the previous step (algorithm 1).
        current, iterations = yield from _optimise(outer, current, settings)
        asked = sampled(table, index, latents, current, owners)
        uncond, *targets = yield [asked, *branches.unconditional(index, current)]
        latents = step(table, index, latents, guide(uncond.output, cond, settings.guidance))
        branches.advance(index, answers, targets, latents)
        visited.append(latents)
        nulls.append(current)
        counts.append(iterations)
    return Inverted(torch.stack(visited, 1), torch.stack(nulls, 1), torch.stack(counts, 1))
