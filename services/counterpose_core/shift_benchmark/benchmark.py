"""The shift benchmark: the cost of each shift, its classes, and the cost of the generator alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.compared_effects import compared_effects, compared_gaps, comparisons
from counterpose_core.shift_benchmark.complete_cases import compared_models, complete_cases
from counterpose_core.shift_benchmark.generator_gap import ConfounderGap, RealAnswers
from counterpose_core.shift_benchmark.shift_effect import ShiftEffect
from counterpose_core.shift_benchmark.shift_filter import LEAST_IMAGES
from counterpose_core.statistics.bootstrap import DRAWS, Flags, proportion
from counterpose_core.types import Estimate


@dataclass(frozen=True)
class ShiftRow:
    """One shift of a benchmark.

    ``share_kept`` is its yield; ``thin`` names the classes left out because too few images are kept, or
    answered by every model that is compared.
    ``effect`` is over all classes that count under this shift, as in the paper; ``on_common`` is over the
    classes that count under every shift, on which alone two shifts are comparable. Either is None if no class
    is left.
    """

    shift: str
    share_kept: Estimate
    thin: tuple[str, ...]
    effect: ShiftEffect | None
    on_common: ShiftEffect | None
    gap: ConfounderGap | None

    @property
    def is_confounded(self) -> bool:
        """True if the generator alone is shown to cost the models more than the shift does."""
        return self.gap is not None and self.gap.confounding == "confounded"


@dataclass(frozen=True)
class ShiftBenchmark:
    """All shifts compared with the base; ``common`` are the classes that count under every shift."""

    common: tuple[str, ...]
    rows: tuple[ShiftRow, ...]


def shift_benchmark(
    answers: ModelAnswers,
    generator: np.random.Generator,
    *,
    real: RealAnswers | None = None,
    least: int = LEAST_IMAGES,
    draws: int = DRAWS,
) -> ShiftBenchmark:
    """Compare every shift with the base (DI, section 6 and A.5).

    A class counts under a shift if at least ``least`` of its base images and of its shifted images are kept.
    The paper requires this of the shifted images only; but with no base image a class has no drop, and with
    one image its drop would depend on that image alone.

    A model that failed on images is left out there: its own drop uses the images that it answered. What
    compares models or averages over them uses the images that all compared models answered, see
    `complete_cases`.

    Args:
        answers: the models' answers on base and shifted images.
        generator: draws the bootstraps.
        real: answers to real validation images, to estimate the cost of the generator alone.
        least: the number of kept images that a class needs; a group of images counts as one.
        draws: the number of bootstrap draws.
    """
    compared = compared_models(answers)
    counted = np.zeros((len(answers.shifts), len(answers.classes)), dtype=np.bool_)
    for models, shifts in comparisons(compared):
        counted |= _counted(complete_cases(answers, models), least, shifts[:, None])
    common = _common(answers, counted)
    # Effects over the same classes are comparable only if they are those of the same models.
    everywhere = np.broadcast_to(compared[counted.any(axis=1)].all(axis=0), compared.shape)
    seed, gap_seed = (int(seed) for seed in generator.integers(2**63, size=2))
    count = partial(_counted, least=least)
    # The same draws, so that both results are equal if every class counts under every shift.
    effects, on_common = (
        compared_effects(answers, models, counted & within, partial(count, within=within), seed, draws=draws)
        for models, within in ((compared, np.ones_like(common)), (everywhere, common))
    )
    gaps: Sequence[ConfounderGap | None] = [None] * len(counted)
    if real is not None:
        gaps = compared_gaps(answers, real, compared, counted, gap_seed, draws=draws)
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


def _counted(answers: ModelAnswers, least: int, within: Flags) -> Flags:
    """Return which classes ``within`` keep enough images under each shift and the base (shifts, classes)."""
    left = np.stack([answers.n_units(condition) for condition in range(len(answers.conditions))])
    return np.asarray((left[1:] >= max(1, least)) & (left[0] >= max(1, least)) & within)


def _common(answers: ModelAnswers, counted: Flags) -> Flags:
    """Return which classes count under every shift that was generated for all classes (classes,).

    A shift for some classes only would exclude all others: it is compared on those common classes it has.
    """
    made = np.asarray(answers.made.any(axis=2))
    general = np.all(made[1:] | ~made[0], axis=1)
    return np.asarray(np.all(counted[general] if general.any() else counted, axis=0))
