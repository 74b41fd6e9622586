"""Two ways to the words of a description, compared bug by bug: frequent words, and likely sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from scipy.stats import binomtest

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from evaluation.validity.report import Part

from .figures import STRONG
from .report import BugReport, Fate, HuntValidity

Way = Literal["frequency", "likelihood"]
WAYS: tuple[Way, Way] = ("frequency", "likelihood")


class Paired(Part):
    """Planned bugs by who found them, and McNemar's exact test of the two ways.

    ``frequency_alone``: of the bugs that exactly one way found, the share that frequency found, with
    Clopper and Pearson's interval; 0.5 if neither way is better. ``p``: two-sided; null if there is no
    such bug.
    """

    both: int
    only_frequency: int
    only_likelihood: int
    neither: int
    frequency_alone: Estimate
    p: float | None


class WayFigures(Part):
    """What hunts by one way find.

    ``recall_of_strong``: of planted bugs with a true rate of 0.3 or more. ``precision``: findings that break
    and are true. ``images``: that the hunts asked for.
    """

    recall_of_strong: Estimate
    recall: Estimate
    precision: Estimate
    images: int


class PairedBug(Part):
    """A planted bug and what became of it by either way."""

    classifier: str
    label: str
    bug: str
    true_rate: Estimate
    frequency: Fate
    likelihood: Fate


class WordsComparison(Part):
    """`results/hunt-words.json`: the hunts that both ways have ended, of ``planned``."""

    stretch: int
    classifiers: int
    hunts: int
    planned: int
    request: dict[str, Any]
    strong: Paired
    every: Paired
    ways: dict[Way, WayFigures]
    bugs: list[PairedBug]


def compared(made: Mapping[Way, HuntValidity]) -> WordsComparison:
    """Compare the hunts that both ways have ended, bug by bug."""
    first, second = (made[way] for way in WAYS)
    hunts = {(hunt.classifier, hunt.label) for hunt in first.hunts}
    hunts &= {(hunt.classifier, hunt.label) for hunt in second.hunts}
    others = {(bug.classifier, bug.bug): bug for bug in second.bugs}
    pairs = [
        (bug, others[bug.classifier, bug.bug])
        for bug in first.bugs
        if (bug.classifier, bug.bug) in others and (bug.classifier, bug.label) in hunts
    ]
    strong = [pair for pair in pairs if (pair[0].true_rate.estimate or 0.0) >= STRONG]
    return WordsComparison(
        stretch=first.setting.stretches[0],
        classifiers=len({classifier for classifier, _ in hunts}),
        hunts=len(hunts),
        planned=first.setting.planned,
        request=first.setting.request,
        strong=paired(strong),
        every=paired(pairs),
        ways={way: _figures(made[way], hunts) for way in WAYS},
        bugs=[
            PairedBug(
                classifier=bug.classifier,
                label=bug.label,
                bug=bug.bug,
                true_rate=bug.true_rate,
                frequency=bug.fate,
                likelihood=other.fate,
            )
            for bug, other in pairs
        ],
    )


def paired(pairs: Sequence[tuple[BugReport, BugReport]]) -> Paired:
    """Count bugs by which of two ways found them: by frequency, and by likelihood."""
    counts = Counter((bug.fate == "found", other.fate == "found") for bug, other in pairs)
    alone, other = counts[True, False], counts[False, True]
    return Paired(
        both=counts[True, True],
        only_frequency=alone,
        only_likelihood=other,
        neither=counts[False, False],
        frequency_alone=proportion(alone, alone + other),
        p=float(binomtest(alone, alone + other).pvalue) if alone + other else None,
    )


def _figures(made: HuntValidity, hunts: set[tuple[str, str]]) -> WayFigures:
    bugs = [bug for bug in made.bugs if (bug.classifier, bug.label) in hunts]
    claims = [claim for claim in made.claims if (claim.classifier, claim.label) in hunts]
    return WayFigures(
        recall_of_strong=_found([bug for bug in bugs if (bug.true_rate.estimate or 0.0) >= STRONG]),
        recall=_found(bugs),
        precision=proportion(sum(claim.is_true for claim in claims), len(claims)),
        images=sum(hunt.images for hunt in made.hunts if (hunt.classifier, hunt.label) in hunts),
    )


def _found(bugs: Sequence[BugReport]) -> Estimate:
    return proportion(sum(bug.fate == "found" for bug in bugs), len(bugs))
