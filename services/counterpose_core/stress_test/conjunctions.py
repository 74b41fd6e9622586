"""Conjunctions: two things that a caption names, which hurt a classifier together and neither alone.

The screen shows single changes. Where a rare mistake needs two conditions at once, most edits towards either
of them change nothing, so their mean loss is small. This module looks at all images that the screen saw, the
originals included, for pairs of phrases with which the classifier fails and without either of which it does
not. It promises nothing: what it proposes is tested on images that are edited towards both.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from counterpose_core.statistics.bootstrap import Flags, Floats
from counterpose_core.statistics.coded import Ints
from counterpose_core.types import EditType

FAILING_SHARE = 0.5
"""More of the images with both phrases must be answered wrong."""

HARMLESS_SHARE = 0.2
"""At most so many of the images with one of them may be, five imagined ones of a tenth counted in.

With more, that phrase hurts by itself; one odd image of three does not say so.
"""

MOST_PAIRS = 60
"""Pairs of phrases that are counted for a classifier and class, those of the most mistakes first."""

MOST_OF_A_CELL = 5
"""Conjunctions of one classifier and class that are tested: one mistake fits several pairs of phrases."""

ITEMS_EACH = 48
"""Items of the budget for each: its look costs some eight, so all looks take at most a sixth of it."""

_OFTEN, _SELDOM = (3.0, 1.0), (1.0, 9.0)
"""Beta distributions of the share of mistakes with both phrases, and without them, before any is seen."""


class Condition(NamedTuple):
    """A phrase of captions, and the factor that it belongs to."""

    edit_type: EditType
    phrase: str


@dataclass(frozen=True)
class Conjunction:
    """Two conditions on images of one class, in the order of their factors and phrases."""

    object_class: str
    first: Condition
    second: Condition


@dataclass(frozen=True)
class ConjunctionCandidate:
    """A conjunction that fits the mistakes of one classifier.

    ``score`` is the logarithm of a Bayes factor: how much better two rates of mistakes, with both phrases and
    without, explain all images of the class than one rate does. ``alone`` counts the images with one of them
    that are answered rightly.
    """

    classifier: str
    conjunction: Conjunction
    score: float
    alone: int


@dataclass(frozen=True)
class AnsweredImages:
    """Images of one class that a classifier answered: originals and edits.

    ``sources`` numbers the source image of each (n,); ``wrong`` tells which are answered wrong (n,);
    ``conditions`` are those that its caption names.
    """

    sources: Ints
    wrong: Flags
    conditions: Sequence[Collection[Condition]]


def conjunctions_in(classifier: str, object_class: str, images: AnsweredImages) -> list[ConjunctionCandidate]:
    """Return the conjunctions that fit the mistakes on images of a class, the best first.

    Of the images with both phrases more than half must be answered wrong, of those with one of them no more
    than a fifth can be expected to be, each source image with weight 1; of either alone one must be seen.
    """
    failing = np.flatnonzero(images.wrong).tolist()
    counted = Counter(
        pair for at in failing for pair in itertools.combinations(sorted(images.conditions[at]), 2)
    )
    frequent = sorted(counted, key=lambda pair: (-counted[pair], pair))[:MOST_PAIRS]
    names = sorted({each for pair in frequent for each in pair})
    shows = {
        name: np.fromiter((name in each for each in images.conditions), bool, len(images.conditions))
        for name in names
    }
    candidates = (_fitting(classifier, Conjunction(object_class, *pair), images, shows) for pair in frequent)
    return sorted(filter(None, candidates), key=_best_first)[:MOST_OF_A_CELL]


def chosen_conjunctions(
    candidates: Iterable[ConjunctionCandidate], budget: int
) -> Mapping[Conjunction, tuple[str, ...]]:
    """Return the conjunctions to test with their classifiers, as many as ``budget`` items allow."""
    by_conjunction: dict[Conjunction, list[str]] = {}
    for each in sorted(candidates, key=_best_first):
        if each.conjunction in by_conjunction or len(by_conjunction) < budget // ITEMS_EACH:
            by_conjunction.setdefault(each.conjunction, []).append(each.classifier)
    return {conjunction: tuple(names) for conjunction, names in by_conjunction.items()}


def _fitting(
    classifier: str, conjunction: Conjunction, images: AnsweredImages, shows: Mapping[Condition, Flags]
) -> ConjunctionCandidate | None:
    first, second = shows[conjunction.first], shows[conjunction.second]
    both = _wrong_shares(images, first & second)
    if not both.size or both.mean() <= FAILING_SHARE:
        return None
    for alone in (first & ~second, second & ~first):
        shares = _wrong_shares(images, alone)
        if not shares.size or _expected(shares) > HARMLESS_SHARE:
            return None
    without = _wrong_shares(images, ~(first & second))
    score = _evidence(both, _OFTEN) + _evidence(without, _SELDOM)
    score -= _evidence(np.concatenate([both, without]), _SELDOM)
    harmless = int(((first ^ second) & ~images.wrong).sum())
    return ConjunctionCandidate(classifier, conjunction, round(score, 9), harmless)


def _wrong_shares(images: AnsweredImages, at: Flags) -> Floats:
    """The share of wrong answers among these images of each source image that has any."""
    _, index = np.unique(images.sources[at], return_inverse=True)
    return np.asarray(np.bincount(index, weights=images.wrong[at]) / np.bincount(index))


def _expected(shares: Floats) -> float:
    """The share of mistakes to expect of further sources, half of `_SELDOM` counted in."""
    wrong, right = (number / 2 for number in _SELDOM)
    return float((shares.sum() + wrong) / (shares.size + wrong + right))


def _evidence(shares: Floats, prior: tuple[float, float]) -> float:
    """The log-likelihood of these shares of mistakes of sources, over all rates by their prior."""
    wrong, right = float(shares.sum()), float((1 - shares).sum())
    often, seldom = prior
    return float(scipy.special.betaln(wrong + often, right + seldom) - scipy.special.betaln(often, seldom))


def _best_first(each: ConjunctionCandidate) -> tuple[float, int, str, str, Condition, Condition]:
    conjunction = each.conjunction
    names = each.classifier, conjunction.object_class, conjunction.first, conjunction.second
    return -each.score, -each.alone, *names
