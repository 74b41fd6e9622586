"""Users who ask for more images of every finding until it is proven: how often a finding without harm is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.random import Generator

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.stress_test.proof import join
from counterpose_core.types import Estimate

from .world import Floats, Noise, draw_sources

FINDINGS = 24
"""What a run lists, and a user can ask about."""

CHILDREN = 5
"""The runs that a user has the patience for."""

FEW, IMAGES = 10, 20
"""The images of each: few, so that one looks often, or as many as by default."""

Answers = Noise | Literal["fickle"]
"""``fickle``: mostly sure, and right in one of two images of a source whatever they show. No classifier makes
false evidence more often."""

ANSWERS: tuple[Answers, ...] = ("sym", "asym", "fickle")

_CHANGES, _SCREENED = 2000, 8
_TESTED, _CONFIRMED = 12, 8
"""Findings that their own run tested, and the pairs of each."""

_HARM, _HIT = 5.0, 0.6
_FICKLE = 0.1


def false_proofs(
    answers: Answers,
    replicates: int,
    generator: Generator,
    *,
    family: int = FINDINGS,
    screen_counts: bool = False,
) -> Estimate:
    """Return the share of runs of which a user proves any finding, though no change of words does harm.

    The findings are the worst of 2,000 changes in the screen, by chance alone. The user asks for all of them.

    Args:
        answers: how the classifier's answers to one source's images differ.
        replicates: the number of runs.
        generator: draws everything.
        family: the number of findings for which the evidence must hold.
        screen_counts: whether the pairs that chose a finding count as evidence of it, as they must not.
    """
    false = sum(_any_proof(answers, generator, family, screen_counts) for _ in range(replicates))
    return proportion(false, replicates)


def proofs_of_a_loss(replicates: int, generator: Generator) -> Estimate:
    """Return the share of findings with true harm that at most five child runs prove."""
    proven = 0
    for _ in range(replicates):
        runs = (_kept(_losses(IMAGES, generator, "sym", harm=_HARM)) for _ in range(CHILDREN))
        proven += _is_proven([], runs, FINDINGS)
    return proportion(proven, replicates)


def _any_proof(answers: Answers, generator: Generator, family: int, screen_counts: bool) -> bool:
    screened = _losses(_CHANGES * _SCREENED, generator, answers).reshape(_CHANGES, _SCREENED)
    counts = np.maximum(np.isfinite(screened).sum(axis=1), 1)
    worst = np.argsort(-np.nansum(screened, axis=1) / counts)[:FINDINGS]
    proven = False
    for number, chosen in enumerate(screened[worst]):
        counted = [_kept(chosen)] if screen_counts else []
        counted += [_kept(_losses(_CONFIRMED, generator, answers))] if number < _TESTED else []
        children = (_kept(_losses(FEW, generator, answers)) for _ in range(CHILDREN))
        proven |= _is_proven(counted, children, family)
    return proven


def _is_proven(counted: list[Floats], children: Iterator[Floats], family: int) -> bool:
    """Whether a user who goes on until it is proven, or all children are made, has a proof."""
    for child in children:
        counted = [*counted, child]
        if join(counted, family).proven:
            return True
    return False


def _losses(images: int, generator: Generator, answers: Answers, harm: float = 0.0) -> Floats:
    """p of the placebo less that of the edit of each image, NaN where one of them was dropped."""
    if answers == "fickle":
        placebo, edit = generator.beta(_FICKLE, _FICKLE, size=(2, images))
        return np.asarray(placebo - edit)
    drawn = draw_sources(images, 1, generator, noise=answers, harm=harm, hit=_HIT)
    return np.asarray(drawn.placebo - drawn.edits[:, 0])


def _kept(losses: Floats) -> Floats:
    return np.asarray(losses[np.isfinite(losses)])
