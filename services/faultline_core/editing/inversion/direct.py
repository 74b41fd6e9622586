"""Direct inversion: the source branch is pinned to its inversion trajectory (Ju et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from faultline_core.editing.denoiser import Cancellation, Denoiser, never
from faultline_core.editing.driver.driver import Driver
from faultline_core.editing.driver.evaluation import Owner, Walk
from faultline_core.editing.inversion.inversion import Inverted, no_inner_iterations
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.solvers.ddim import ddim_inversion_walk


def direct_walk(
    table: Timetable, clean: Tensor, text: Tensor, null: Tensor, owners: Sequence[Owner]
) -> Walk[Inverted]:
    """Invert (B, C, H, W) given captions (B, L, D) and the empty prompt (L, D); no optimisation.

    The method adds to the source branch whatever brings it back to the inversion path at each step, so the
    branch *is* that path: reconstruction is exact, and guided source steps need not be computed at all.
    """
    trajectory = yield from ddim_inversion_walk(table, clean, text, owners)
    # One embedding for all steps: fifty equal ones would be most of what the cache has to keep.
    uncond = null.expand(clean.shape[0], 1, *null.shape).clone()
    return Inverted(trajectory, uncond, no_inner_iterations(trajectory))


def direct_inversion(
    denoiser: Denoiser,
    table: Timetable,
    clean: Tensor,
    text: Tensor,
    null: Tensor,
    *,
    cancelled: Cancellation = never,
) -> Inverted:
    """Run `direct_walk` alone."""
    owners = range(clean.shape[0])
    return Driver(denoiser, cancelled=cancelled).run(direct_walk(table, clean, text, null, owners))
