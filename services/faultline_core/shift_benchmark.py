"""The benchmark of shifts: what each costs models, on which classes, and what the generator costs beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline_core.confounder_gap import ConfounderGap, RealAnswers, confounder_gaps
from faultline_core.model_answers import ModelAnswers
from faultline_core.shift_effect import ShiftEffect, shift_effects
from faultline_core.shift_filter import LEAST_PICTURES, Flags
from faultline_core.statistics import DRAWS, proportion
from faultline_core.types import Estimate


@dataclass(frozen=True)
class ShiftRow:
    """One shift of a benchmark.

    ``share_kept`` is its yield, ``thin`` names the classes left out because of it. ``effect`` is over all
    classes that count under this shift, as in the paper, ``on_common`` over those that count under every
    shift: only there may two shifts be compared. Either is None where no class is left.
    """

    shift: str
    share_kept: Estimate
    thin: tuple[str, ...]
    effect: ShiftEffect | None
    on_common: ShiftEffect | None
    gap: ConfounderGap | None

    @property
    def is_confounded(self) -> bool:
        """Whether the generator alone costs the models more than the shift is found to."""
        return self.gap is not None and self.effect is not None and self.gap.exceeds(self.effect.impact)


@dataclass(frozen=True)
class ShiftBenchmark:
    """All shifts held against the base; ``common`` are the classes that count under each."""

    common: tuple[str, ...]
    rows: tuple[ShiftRow, ...]


def shift_benchmark(
    answers: ModelAnswers,
    generator: np.random.Generator,
    *,
    real: RealAnswers | None = None,
    least: int = LEAST_PICTURES,
    draws: int = DRAWS,
) -> ShiftBenchmark:
    """Hold every shift against the base (DI, section 6 and A.5).

    A class counts under a shift if ``least`` pictures of both are kept. The paper says so of the shifted
    ones; without base pictures a class has no drop, and one of them would be all of it. ``real`` are
    answers to real validation pictures, to tell what the generator alone costs.
    """
    counted = _counted(answers, least)
    common = _common(answers, counted)
    seed, gap_seed = (int(seed) for seed in generator.integers(2**63, size=2))
    # The same draws: where every class counts under every shift, the two are one.
    effects, on_common = (
        shift_effects(answers, classes, np.random.default_rng(seed), draws=draws)
        for classes in (counted, np.asarray(counted & common))
    )
    gaps: Sequence[ConfounderGap | None] = [None] * len(counted)
    if real is not None:
        gaps = confounder_gaps(answers, real, counted, np.random.default_rng(gap_seed), draws=draws)
    return ShiftBenchmark(
        common=answers.classes_where(common),
        rows=tuple(
            ShiftRow(
                shift=shift,
                share_kept=proportion(int(answers.kept[index].sum()), int(answers.made[index].sum())),
                thin=answers.classes_where(answers.made[index].any(axis=1) & ~counted[index - 1]),
                effect=effects[index - 1],
                on_common=on_common[index - 1],
                gap=gaps[index - 1],
            )
            for index, shift in enumerate(answers.shifts, start=1)
        ),
    )


def _counted(answers: ModelAnswers, least: int) -> Flags:
    """Which classes have enough pictures left under each shift, and under the base (shifts, classes)."""
    left = answers.kept.sum(axis=2)
    return np.asarray((left[1:] >= max(1, least)) & (left[0] >= max(1, least)))


def _common(answers: ModelAnswers, counted: Flags) -> Flags:
    """Which classes count under every shift that was made for all classes (classes,).

    A shift for some classes only would leave no others: it is seen on those of the common ones that it has.
    """
    made = np.asarray(answers.made.any(axis=2))
    general = np.all(made[1:] | ~made[0], axis=1)
    return np.asarray(np.all(counted[general] if general.any() else counted, axis=0))
