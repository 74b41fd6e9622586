"""Words that captions of failures have more often than captions of successes of the same samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.bug_hunt.comparison import LEVEL, FailureCounts, above_baseline
from counterpose_core.statistics.p_values import holm, rejectable


@dataclass(frozen=True)
class WordOfFailures:
    """A word, the images that have it among failures and among successes, and its adjusted p."""

    word: str
    failures: int
    successes: int
    p_adjusted: float


def words_of_failures(
    failures: Sequence[frozenset[str]], successes: Sequence[frozenset[str]], *, level: float = LEVEL
) -> list[WordOfFailures]:
    """Return the words that are more frequent among failures, the surest first.

    An alternative to the likelihoods of captions (section 3 of the paper) that needs no such captioner.
    Fisher's exact test a word, one-sided, with Holm's correction over the words that could be significant at
    all (Tarone 1990).

    Args:
        failures: the words of one caption an image that failed.
        successes: the same of the images that did not.
        level: the family-wise level.
    """
    among_failures, among_successes = (
        Counter(word for caption in captions for word in caption) for captions in (failures, successes)
    )
    everywhere = sorted(among_failures | among_successes)
    sizes = len(failures), len(successes)
    least = [_least_p(among_failures[word] + among_successes[word], sizes) for word in everywhere]
    tested = [word for word, can in zip(everywhere, rejectable(least, level), strict=True) if can]
    adjusted = holm([_p(among_failures[word], among_successes[word], sizes) for word in tested])
    found = [
        WordOfFailures(word, among_failures[word], among_successes[word], p)
        for word, p in zip(tested, adjusted, strict=True)
        if p <= level
    ]
    return sorted(found, key=lambda each: (each.p_adjusted, -each.failures, each.word))


def _least_p(images: int, sizes: tuple[int, int]) -> float:
    """Return the p of a word of so many images if as many of them as possible had failed."""
    failures = min(images, sizes[0])
    return _p(failures, images - failures, sizes)


def _p(failures: int, successes: int, sizes: tuple[int, int]) -> float:
    return above_baseline(FailureCounts(failures, sizes[0]), FailureCounts(successes, sizes[1]))
