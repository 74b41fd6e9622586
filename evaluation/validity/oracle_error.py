"""How often the oracle errs, and figures of edits corrected for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from counterpose_core.types import EDIT_TYPES, Estimate
from counterpose_miniature.world.scene import ATTRIBUTES

from .judging import EditVerdict, Judgement, Seen
from .labels import UNCLEAR, Labelled
from .measures import DRAWS, UNKNOWN, Floats, share
from .report import CorrectedFigures

MEASURES = EditVerdict._fields
_TAILS = (0.025, 0.975)
_LEAST_INFORMATION = 0.1
"""A draw whose sensitivity and specificity add up to hardly more than 1 says nothing, and is left out."""


def accuracy(pairs: Iterable[tuple[Seen, Mapping[str, str]]]) -> dict[str, Estimate]:
    """Share of right answers by attribute and for all at once, from (seen, true) of each image.

    Where a person could not tell, the attribute does not count, and the image does not count for ``all``.
    """
    listed = list(pairs)
    found = {
        name: share([seen[name] == true[name] for seen, true in listed if true[name] != UNCLEAR])
        for name in ATTRIBUTES
    }
    clear = [(seen, true) for seen, true in listed if UNCLEAR not in true.values()]
    return found | {
        "all": share([all(seen[name] == true[name] for name in ATTRIBUTES) for seen, true in clear])
    }


@dataclass(frozen=True)
class ErrorRates:
    """How the oracle's verdict on one measure compares with that of the labels.

    Of the ``true`` images labelled right, the oracle calls ``hits`` right; of the ``false`` images
    labelled wrong, it calls ``rejections`` wrong.
    """

    hits: int
    true: int
    rejections: int
    false: int

    @classmethod
    def of(cls, by_oracle: Sequence[bool], by_eye: Sequence[bool]) -> ErrorRates:
        """Count agreements, image by image."""
        pairs = list(zip(by_oracle, by_eye, strict=True))
        return cls(
            hits=sum(said for said, true in pairs if true),
            true=sum(by_eye),
            rejections=sum(not said for said, true in pairs if not true),
            false=sum(not true for true in by_eye),
        )


def rates_of(labelled: Sequence[Labelled], seen: Sequence[Seen]) -> dict[str, ErrorRates]:
    """The oracle's error rates on each measure of an edit, from labelled images."""
    by_eye = [one.asked.verdict(one.seen) for one in labelled]
    by_oracle = [one.asked.verdict(shown) for one, shown in zip(labelled, seen, strict=True)]
    return {
        name: ErrorRates.of([getattr(one, name) for one in by_oracle], [getattr(one, name) for one in by_eye])
        for name in MEASURES
    }


def corrected(
    counts: Mapping[str, tuple[int, int]],
    rates: ErrorRates,
    generator: np.random.Generator,
    *,
    draws: int = DRAWS,
) -> Estimate:
    """A share by the oracle, corrected for its error: (q + Sp - 1) / (Se + Sp - 1), kept in [0, 1].

    q is the share that the oracle calls right, from (right, all) of each source; Se and Sp are its
    sensitivity and specificity on labelled images (Rogan and Gladen 1978). Both samples are drawn
    again for the interval: sources with replacement, Se and Sp from Beta distributions of their counts
    with one added on each side (Lang and Reiczigel 2014), so that a hundred labels without an error do
    not count as certainty. The estimate itself uses the counts as they are, and the added ones only
    where no labelled image is of that kind. n counts the judged images.
    """
    table = np.array([pair for pair in counts.values() if pair[1]], dtype=np.float64).reshape(-1, 2)
    n = int(table[:, 1].sum())
    whole = _rogan_gladen(
        np.array([table[:, 0].sum() / n if n else 0.0]),
        np.array([rates.hits / rates.true if rates.true else 0.5]),
        np.array([rates.rejections / rates.false if rates.false else 0.5]),
    )
    if not n or not len(whole):
        return UNKNOWN.model_copy(update={"n": n})
    chosen = generator.integers(len(table), size=(draws, len(table)))
    sums = table[chosen].sum(axis=1)
    found = _rogan_gladen(
        sums[:, 0] / sums[:, 1],
        generator.beta(rates.hits + 1, rates.true - rates.hits + 1, size=draws),
        generator.beta(rates.rejections + 1, rates.false - rates.rejections + 1, size=draws),
    )
    if len(found) < draws / 2:
        return UNKNOWN.model_copy(update={"n": n})
    estimate = float(whole[0])
    low, high = (float(end) for end in np.quantile(found, _TAILS))
    return Estimate(estimate=estimate, low=min(low, estimate), high=max(high, estimate), n=n)


def _rogan_gladen(apparent: Floats, sensitivity: Floats, specificity: Floats) -> Floats:
    information = sensitivity + specificity - 1
    known = information > _LEAST_INFORMATION
    shares = (apparent + specificity - 1)[known] / information[known]
    return np.asarray(np.clip(shares, 0.0, 1.0))


def corrected_figures(
    judgements: Iterable[Judgement], rates: Mapping[str, ErrorRates], generator: np.random.Generator
) -> dict[str, CorrectedFigures]:
    """Success, fidelity and label consistency of kept edits and of all that were made, by edit type."""
    made = [one for one in judgements if one.edit_type in EDIT_TYPES]
    found = {}
    for name in (*EDIT_TYPES, "all"):
        mine = [one for one in made if name in (one.edit_type, "all")]
        kept = [one for one in mine if one.kept]
        found[name] = CorrectedFigures(
            **{
                f"{measure}{suffix}": corrected(_counts(group, measure), rates[measure], generator)
                for measure in MEASURES
                for suffix, group in (("", kept), ("_unfiltered", mine))
            }
        )
    return found


def _counts(judgements: Iterable[Judgement], measure: str) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for one in judgements:
        hits, n = counts.get(one.source, (0, 0))
        counts[one.source] = (hits + bool(getattr(one, measure)), n + 1)
    return counts
