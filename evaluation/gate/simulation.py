"""A simulated gate: answers of an incumbent and a candidate whose true regression is known.

Every image has a chance to be answered rightly, which varies from image to image and is lower after a change.
The incumbent answers by that chance. On most images the candidate gives the same answer; on a share it
answers by the same chance anew, as another training of the same network does. A bug makes right answers wrong
on the counterfactuals of one change; a worse candidate answers wrongly on a share of all images.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from counterpose_core.contract.gates import TOLERANCE, GateOutcome
from counterpose_core.gate.regression import decide, regression
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate

CHANGES, CLASSES = 5, 8
YIELD = 0.6
"""The share of planned counterfactuals that the filters keep: one of each change and source image."""

_EASE, _HARDER, _SPREAD = 4.0, 1.2, 2.0
"""Logits of a right answer: on average on a source image, less so after a change, and their spread."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Candidate:
    """How a candidate differs from the incumbent.

    ``redrawn`` is the share of images that it answers anew, ``bug`` its true regression under one change, of
    all classes or of ``one_class`` alone, ``worse`` the share of all images that it is made to get wrong.
    """

    redrawn: float = 0.0
    bug: float = 0.0
    one_class: bool = False
    worse: float = 0.0


@dataclass(frozen=True)
class Trials:
    """How often the gate came to each outcome, and on how many images the two classifiers differ."""

    candidate: Candidate
    sources: int
    outcomes: dict[GateOutcome, Estimate]
    disagreement: float


def trials(candidate: Candidate, sources: int, replicates: int, generator: Generator) -> Trials:
    """Run the gate ``replicates`` times, each on images and answers of its own."""
    counts, differing = Counter[GateOutcome](), 0.0
    for _ in range(replicates):
        outcome, share = _trial(candidate, sources, generator)
        counts[outcome] += 1
        differing += share / replicates
    names: tuple[GateOutcome, ...] = ("passed", "failed", "inconclusive")
    return Trials(
        candidate, sources, {name: proportion(counts[name], replicates) for name in names}, differing
    )


@cache
def right_after() -> float:
    """Return the mean chance of a right answer after a change: a logistic of a normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    logits = _EASE - _HARDER + math.hypot(_SPREAD, 1.0) * nodes
    return float(np.sum(weights / (1.0 + np.exp(-logits))) / np.sum(weights))


def _trial(candidate: Candidate, sources: int, generator: Generator) -> tuple[GateOutcome, float]:
    ease = generator.normal(_EASE, _SPREAD, sources)
    after = ease[:, None] - _HARDER + generator.normal(0.0, 1.0, (sources, CHANGES))
    chances = 1.0 / (1.0 + np.exp(-np.concatenate([ease[:, None], after], axis=1)))
    incumbent: Flags = generator.random(chances.shape) < chances
    anew = generator.random(chances.shape) < candidate.redrawn
    answers: Flags = np.where(anew, generator.random(chances.shape) < chances, incumbent)
    labels = np.arange(sources) % CLASSES
    broken = np.full(chances.shape, candidate.worse)
    broken[(labels == 0) | (not candidate.one_class), 1] += candidate.bug / right_after()
    answers &= generator.random(chances.shape) >= broken
    kept = generator.random((sources, CHANGES)) < YIELD
    return gate(incumbent, answers, kept, labels, generator), float((incumbent != answers).mean())


def gate(
    incumbent: Flags, candidate: Flags, kept: Flags, labels: NDArray[np.intp], generator: Generator
) -> GateOutcome:
    """Judge the source images, every change, and the classes, as `counterpose_gateway.methods.gate` does.

    Args:
        incumbent: whether each answer is right (sources, 1 + changes), that to the source image first.
        candidate: the same of the candidate.
        kept: which counterfactuals there are (sources, changes).
        labels: the class of each source image (sources,).
        generator: draws the bootstrap.
    """
    more = incumbent.astype(np.float64) - candidate.astype(np.float64)
    everything = np.ones(len(labels), dtype=np.bool_)
    cells = []
    for of_class in (everything, *(labels == label for label in np.unique(labels))):
        for change in range(kept.shape[1]):
            compared = more[kept[:, change] & of_class, 1 + change]
            cells.append(regression(compared, generator, tolerance=TOLERANCE))
        cells.append(regression(more[of_class, 0], generator, tolerance=TOLERANCE))
    states = [each.state for each in decide(cells, TOLERANCE)]
    if "failed" in states:
        return "failed"
    # Those of all classes come first; a class need not pass.
    return "inconclusive" if "inconclusive" in states[: kept.shape[1] + 1] else "passed"
