"""Null-text inversion: optimise each step's unconditional embedding (Mokady et al. 2022, algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from faultline_core.editing.adam import adam_update
from faultline_core.editing.branches import Branches, SourceRows
from faultline_core.editing.denoiser import Cancellation, Denoiser, never
from faultline_core.editing.driver.driver import Driver
from faultline_core.editing.driver.evaluation import Evaluation, Objective, Owner, Walk
from faultline_core.editing.inversion.inversion import Inverted
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.solvers.ddim import ddim_inversion_walk, guide, sampled, step, step_coefficients

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
        """Mean squared error under which an image leaves outer step ``index``."""
        return self.tolerance + index * TOLERANCE_GROWTH


@dataclass(frozen=True)
class _OuterStep:
    """What outer step ``index`` holds fixed for the images still optimised (rows of equal order).

    The guided step misses the wanted latents by ``scale * output + offset``: it is linear in what the
    network answers to the null embedding.
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
        """Set out from, and aim at, ``path``, given the captions' outputs ``cond``."""
        latents, wanted = path
        a, b = step_coefficients(table.levels[index], table.levels[index + 1], table.prediction)
        # a * latents + b * (u + w * (c - u)) - wanted, sorted by the null output u.
        offset = a * latents + b * guidance * cond - wanted
        return cls(table, index, latents, offset, b * (1.0 - guidance), owners)

    def asked(self, null: Tensor, *, read: bool) -> Evaluation:
        """Ask for the mean square of the miss and its gradient in each image's own embedding."""
        asked = sampled(self.table, self.index, self.latents, null, self.owners)
        return replace(asked, objective=Objective(self.scale, self.offset, read))

    def keep(self, rows: Sequence[int]) -> _OuterStep:
        """Go on with some of the images."""
        chosen = list(rows)
        owners = [self.owners[row] for row in chosen]
        return replace(self, latents=self.latents[chosen], offset=self.offset[chosen], owners=owners)


def _optimise(outer: _OuterStep, null: Tensor, settings: NullTextSettings) -> Walk[tuple[Tensor, Tensor]]:
    """Run the inner iterations of one outer step; return embeddings (B, L, D) and their counts (B,).

    An image leaves the batch after the update whose loss was under the tolerance, as published; one look
    at all losses together is the only synchronisation with the device in an iteration.
    """
    # Rows are written in place, and the step before has this very tensor among its results.
    null = null.clone()
    counts = torch.zeros(null.shape[0], dtype=torch.int64)
    active = list(range(null.shape[0]))
    first, second = torch.zeros_like(null), torch.zeros_like(null)
    for iteration in range(1, settings.inner_steps + 1):
        last = iteration == settings.inner_steps
        # After the last update nothing hangs on the loss.
        (answer,) = yield [outer.asked(null[active], read=not last)]
        assert answer.gradient is not None
        # Images leave one by one, and all that remain have taken equally many steps: one count serves.
        first, second, direction = adam_update(first, second, answer.gradient, iteration)
        null[active] = null[active] - settings.learning_rate_at(outer.index) * direction
        counts[active] = iteration
        # "Not below" rather than "at least": NaN compares false both ways and must not count as converged.
        going_on = [
            row for row, loss in enumerate(answer.values) if not loss < settings.tolerance_at(outer.index)
        ]
        if not going_on:
            break
        # Rows are dropped only when one has ended: indexing copies the latents.
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
    """Invert (B, C, H, W) given captions (B, L, D) and the empty prompt (L, D), and take branches along.

    The optimised branch *is* the source branch of prompt-to-prompt: its evaluation under the caption
    serves the inversion and the attention of its edits, so an edit on the way never evaluates a source.
    """
    wanted = yield from ddim_inversion_walk(table, clean, text, owners)
    latents, current = wanted[:, 0], null.expand(clean.shape[0], *null.shape)
    visited, nulls, counts = [latents], [], []
    for index in range(table.steps):
        branches.part(index, visited[0])
        # Without the null text in it, so once a step and not once an inner iteration.
        answers = yield branches.conditional(index, SourceRows(latents, text, owners))
        cond = torch.cat([answer.output[:1] for answer in answers])
        path = latents, wanted[:, index + 1]
        outer = _OuterStep.of(table, index, path, cond, settings.guidance, owners)
        # Each step starts from the embedding the step before ended with (algorithm 1).
        current, iterations = yield from _optimise(outer, current, settings)
        asked = sampled(table, index, latents, current, owners)
        uncond, *targets = yield [asked, *branches.unconditional(index, current)]
        latents = step(table, index, latents, guide(uncond.output, cond, settings.guidance))
        branches.advance(index, answers, targets, latents)
        visited.append(latents)
        nulls.append(current)
        counts.append(iterations)
    return Inverted(torch.stack(visited, 1), torch.stack(nulls, 1), torch.stack(counts, 1))


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
    """Run `null_text_walk` alone.

    Images share the network calls but nothing else: each has its own embedding, optimiser state and
    early stop. Only the embedding gets a gradient, so freeze the weights.
    """
    owners = range(clean.shape[0])
    walk = null_text_walk(table, clean, text, null, settings, owners, Branches.none(table))
    return Driver(denoiser, cancelled=cancelled).run(walk)
