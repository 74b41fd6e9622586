"""The effects of shifts where models failed on images: each model on its own, all on the same images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.complete_cases import complete_cases, complete_real, own_cases
from counterpose_core.shift_benchmark.generator_gap import ConfounderGap, RealAnswers, confounder_gaps
from counterpose_core.shift_benchmark.shift_effect import ModelDrop, ShiftEffect, shift_effects
from counterpose_core.statistics.bootstrap import Flags
from counterpose_core.statistics.p_values import holm

Counted = Callable[[ModelAnswers], Flags]
"""Returns the classes that keep enough answered images under each shift (shifts, classes)."""


def comparisons(compared: Flags) -> Iterator[tuple[Flags, Flags]]:
    """Yield each set of models (models,) that is compared, with the shifts (shifts,) that compare it."""
    for models in np.unique(compared, axis=0):
        if models.any():
            yield models, np.asarray((compared == models).all(axis=1))


def compared_effects(
    answers: ModelAnswers, compared: Flags, classes: Flags, counted: Counted, seed: int, *, draws: int
) -> list[ShiftEffect | None]:
    """Compare each shift with the base; see `shift_effects`.

    Args:
        answers: the models' answers on base and shifted images.
        compared: the models to compare under each shift (shifts, models).
        classes: the classes to compare them over (shifts, classes), each with enough complete cases.
        counted: returns the classes of a model's own figures, of its answers.
        seed: seeds the bootstrap, the same for each model.
        draws: the number of bootstrap draws.

    Returns:
        The effect of each shift, or None if no class or no model is left to compare.
    """
    effects: list[ShiftEffect | None] = [None] * len(compared)
    for models, shifts in comparisons(compared):
        cases, over = complete_cases(answers, models), np.asarray(classes & shifts[:, None])
        for shift, effect in enumerate(shift_effects(cases, over, np.random.default_rng(seed), draws=draws)):
            effects[shift] = effect or effects[shift]
    if answers.answered is None:
        return effects
    own = _own_drops(answers, counted, seed, draws)
    kept = [effect and _with_models(effect, own[shift]) for shift, effect in enumerate(effects)]
    # Over the shifts of all comparisons, which each corrected for their own.
    adjusted = iter(holm([effect.p for effect in kept if effect is not None]))
    return [effect and dataclasses.replace(effect, p_holm=next(adjusted)) for effect in kept]


def _own_drops(
    answers: ModelAnswers, counted: Counted, seed: int, draws: int
) -> Sequence[dict[str, ModelDrop]]:
    """The drops under each shift of the models that answered enough images, in the order of the answers."""
    found: list[dict[str, ModelDrop]] = [{} for _ in answers.shifts]
    for cases in own_cases(answers):
        own = shift_effects(cases, counted(cases), np.random.default_rng(seed), draws=draws)
        for drops, effect in zip(found, own, strict=True):
            drops |= {drop.model: drop for drop in (effect.models if effect else ())}
    return [{name: drops[name] for name in answers.models if name in drops} for drops in found]


def _with_models(effect: ShiftEffect, own: dict[str, ModelDrop]) -> ShiftEffect:
    compared = {drop.model for drop in effect.models}
    models = (dataclasses.replace(drop, is_compared=name in compared) for name, drop in own.items())
    return dataclasses.replace(effect, models=tuple(models))


def compared_gaps(
    answers: ModelAnswers, real: RealAnswers, compared: Flags, classes: Flags, seed: int, *, draws: int
) -> list[ConfounderGap | None]:
    """Return the gap under each shift, or None if no class or no model is left; see `confounder_gaps`.

    Gap and impact are of the same models, and of the classes with real images that all of them answered.
    """
    gaps: list[ConfounderGap | None] = [None] * len(compared)
    for models, shifts in comparisons(compared):
        shown, left = complete_real(real, models)
        if not left.any():
            continue
        over = np.asarray(classes & shifts[:, None])
        if real.answered is not None:
            over &= shown.there.any(axis=1)
        cases, generator = complete_cases(answers, left), np.random.default_rng(seed)
        for shift, gap in enumerate(confounder_gaps(cases, shown, over, generator, draws=draws)):
            gaps[shift] = gap or gaps[shift]
    return gaps
