"""How a label's part of a budget is spent, and how many images of each description come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import scipy

from counterpose_core.bug_hunt.comparison import LEVEL, POWER, FailureCounts, above_baseline
from counterpose_core.bug_hunt.sampling import FEWEST_FAILURES
from counterpose_core.errors import InvalidRequest

LEAST_BASELINE = 32
"""Images of a baseline; with fewer, a failure rate of one in ten would often show no failure at all."""
LEAST_ROUND = 8
"""Images by which a description is judged at least."""
FORMS = 7
"""Forms of a winner that refinement measures at most: itself again, its parts, it without an adjective."""
REFINE = (32, 24, 16)
"""Images of a form where a hunt decides: the first number that a quarter of its images suffices for."""
_FEWEST_FORMS = 6
"""Forms for which a small budget refines at all: a winner itself, three parts and two adjectives."""
ROUNDS = 3
"""Rounds of images of descriptions: after each, the worse half gets no more (sequential halving)."""


@dataclass(frozen=True)
class Shares:
    """Images of a label's baseline, of all its descriptions together, held-out ones of a prompt, those of all
    shorter forms together, those of edited captions, and those of a mixture of prompts."""

    baseline: int
    hypotheses: int
    held_out: int
    refinement: int = 0
    varied: int = 0
    mixture: int = 0
    refine: int = 0
    """Images of one shorter form."""


def share(
    images: int,
    labels: int,
    *,
    hypotheses: int,
    winners: int,
    held_out: int,
    refine: int | None = 0,
    vary: float = 0.0,
    mixture: int = 0,
) -> Shares:
    """Divide a budget: held-out images first, and the rest evenly between baseline and descriptions.

    ``refine``: images of each shorter form of a winner, of which it has `FORMS` at most; reserved too. None
    for as many as a quarter of what held-out images leave suffices for, or none of a small budget.
    ``vary``: the share of the baseline that edited captions get instead, in [0, 1). ``mixture``: images of a
    mixture of prompts, reserved too.

    Raises:
        InvalidRequest: the budget is too small; the least that would do is named, the pointer is
            ``/budget/images``.
    """
    kept = min(winners, hypotheses)
    each, search = images // labels, LEAST_BASELINE + LEAST_ROUND * hypotheses
    reserved = held_out * (1 + kept) + mixture
    size, refinement = _refinement(each - reserved, kept, search) if refine is None else (refine, None)
    refinement = size * FORMS * kept if refinement is None else refinement
    reserved += refinement
    least = reserved + search
    if each < least:
        kept_for = " or ".join(
            ["held out", *["of shorter forms"] * bool(refinement), *["of the mixture"] * bool(mixture)]
        )
        raise InvalidRequest(
            f"a budget of {images} images is too small for {labels} labels: each needs {least}, of which "
            f"{reserved} are {kept_for}; allow {least * labels}, or lower held_out, winners"
            f"{', the images of the mixture' * bool(mixture)} or hypotheses",
            pointer="/budget/images",
        )
    left = each - reserved
    # What is not seen is not described: edited captions get a third of their own.
    described = min(max(left // (3 if vary else 2), LEAST_ROUND * hypotheses), left - LEAST_BASELINE)
    baseline = left - described
    varied = min(int(vary * baseline), baseline - LEAST_BASELINE)
    return Shares(baseline - varied, described, held_out, refinement, varied, mixture, size)


def _refinement(left: int, kept: int, search: int) -> tuple[int, int]:
    """Return the images of a form and of all forms, where ``search`` of ``left`` images must remain."""
    most = min(left // 4, left - search)
    for size in REFINE:
        if most >= size * FORMS * kept:
            return size, size * FORMS * kept
    return (REFINE[-1], most) if most >= REFINE[-1] * _FEWEST_FORMS else (0, 0)


def findable_rate(images: int, *, failures: int = FEWEST_FAILURES, power: float = POWER) -> float | None:
    """Return the smallest failure rate of which ``images`` show so many failures with probability ``power``.

    None where even a label that always fails does not.
    """
    if images < failures:
        return None
    # P(at least k of n) is the distribution function of a beta variable.
    return float(scipy.special.betaincinv(failures, images - failures + 1, power))


@dataclass(frozen=True)
class Standing:
    """What was seen of one description so far, and the words that it adds to the label."""

    number: int
    described: FailureCounts
    baseline: FailureCounts
    words: frozenset[str] = frozenset()

    @property
    def p(self) -> float:
        """One-sided p of "it fails no more often than the baseline"."""
        return above_baseline(self.described, self.baseline)

    @property
    def is_hopeless(self) -> bool:
        """Whether it fails no more often than the baseline so far."""
        ours, theirs = self.described, self.baseline
        return ours.failures * theirs.images <= theirs.failures * ours.images


def promising(standings: Sequence[Standing], most: int) -> list[int]:
    """Return the numbers of at most ``most`` descriptions that are not hopeless, the best first.

    One that only adds words to another, without failing more often, is left out.
    """
    hopeful = [each for each in standings if not each.is_hopeless]
    left = [each for each in hopeful if not any(_says_enough(other, each) for other in hopeful)]
    return [each.number for each in sorted(left, key=lambda each: (each.p, each.number))[:most]]


def _says_enough(general: Standing, narrow: Standing) -> bool:
    """Whether a description with fewer words fails as often, as far as can be told: the rest says nothing."""
    if not general.words < narrow.words or general.p > LEVEL:
        return False
    return above_baseline(narrow.described, general.described) > LEVEL


def round_size(left: int, descriptions: int, rounds_left: int) -> int:
    """Return the images of each description in the next round, or 0 where too few are left."""
    if descriptions == 0 or rounds_left == 0:
        return 0
    size = left // (rounds_left * descriptions)
    return size if size >= LEAST_ROUND else LEAST_ROUND if left >= LEAST_ROUND * descriptions else 0
