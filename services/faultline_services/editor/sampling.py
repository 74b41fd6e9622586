"""How a preset samples: the noise levels it visits, its solver, and noise drawn instead of inverted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from torch import Tensor

from faultline_core.blobs import cache_key
from faultline_core.contract.editor import EditorPreset
from faultline_core.editing import solver as solvers
from faultline_core.editing.dpm_solver import DPMSolver2M
from faultline_core.editing.generate import starting_noise
from faultline_core.editing.noise_schedule import NoiseSchedule, Timetable
from faultline_core.editing.virtual_inversion import Consistent
from faultline_core.types import BlobRef, Solver

SOLVERS: Mapping[Solver, solvers.Solver] = MappingProxyType(
    {"ddim": solvers.DDIM(), "dpm-solver++": DPMSolver2M(), "consistent": Consistent()}
)
_SEED_DIGITS = 15
"""Hexadecimal, of 60 bits: what every generator takes."""


def preset_timetable(schedule: NoiseSchedule, preset: EditorPreset) -> Timetable:
    """Choose the noise levels of a preset."""
    return schedule.timetable(preset.steps, preset.spacing)


def picture_noise(preset: EditorPreset, pictures: Sequence[BlobRef], shape: tuple[int, int, int]) -> Tensor:
    """Draw noise (B, C, h, w) by the preset's seed and each picture's bytes alone."""
    # The seed alone would give all pictures one noise, and what it favours to all their edits.
    seeds = [cache_key(seed=preset.seed, picture=picture)[:_SEED_DIGITS] for picture in pictures]
    return starting_noise([int(seed, 16) for seed in seeds], shape)
