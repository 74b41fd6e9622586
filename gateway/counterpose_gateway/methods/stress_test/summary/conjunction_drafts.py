"""The findings of tests of two conditions together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from counterpose_core.contract.confirmation import ShownConditions
from counterpose_core.contract.findings import ConditionCount, Confirmed, FindingState, Screened
from counterpose_core.stress_test.confirmation import MARGIN, ConfirmationTest
from counterpose_core.stress_test.conjunctions import HARMLESS_SHARE, Condition, Conjunction
from counterpose_core.stress_test.decisions import settle_zero, zero_ruled_out
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.observations.conjunction_pairs import ChosenConjunction
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import why_not
from counterpose_gateway.methods.stress_test.observations.observations import REPEATED_DRAW, Observation
from counterpose_gateway.methods.stress_test.summary.finding_draft import Draft, Pair, flips

_HURTS_ALONE = (
    f"one condition alone is answered wrong in more than {HARMLESS_SHARE * 100:.0f} % of the images, so it "
    "may hurt by itself."
)


def figure_of_conjunction(classifier: str, conjunction: Conjunction) -> str:
    """The name under which the figures of a conjunction draw their random numbers."""
    words = [classifier, conjunction.object_class, *conjunction.first, *conjunction.second]
    return "conjunction/" + "/".join(words)


def conjunction_draft(
    classifier: str, each: ChosenConjunction, test: ConfirmationTest, loss: Estimate, *, family: int
) -> Draft:
    """Return the finding of a test; ``family`` is the number of all tests of the run.

    It breaks the classifier if the test shows a loss beyond both single conditions, and the classifier is
    right on most images with one of them: else one condition hurts by itself, and others make it worse.
    """
    pairs, wholes = each.pairs(classifier), each.wholes(classifier)
    conditions = [
        ConditionCount(
            edit_type=condition.edit_type,
            words=condition.phrase,
            n=len(wholes),
            wrong=sum(not images[part].after[classifier].right for images in wholes),
        )
        for condition, part in _alone(each.conjunction)
    ]
    harmless = all(one.wrong <= HARMLESS_SHARE * one.n for one in conditions)
    state = _state(test, loss, harmless=harmless)
    ruled_out = zero_ruled_out(shown=state == "breaks", p_adjusted=test.p_adjusted)
    confirmed = Confirmed(
        scope=each.scope,
        n_sources=len({pair.edit.unit for pair in pairs}),
        n_pairs=len(pairs),
        loss=settle_zero(loss, ruled_out=ruled_out),
        planned=len(each.places),
        dropped=_dropped(each, classifier),
        stopped=test.stopped,
        p=test.p,
        p_adjusted=test.p_adjusted,
        family_size=family,
        flipped=sum(flips(pair.placebo, pair.edit, classifier) for pair in pairs),
    )
    return Draft(
        state=state,
        classifier=classifier,
        object_class=each.conjunction.object_class,
        edit_type=each.conjunction.first.edit_type,
        words=("", ""),
        screened=Screened(loss=0.0, n_sources=0, n_images=0, flipped=0),
        confirmed=confirmed,
        pairs=[Pair(pair.placebo, pair.edit, pair.loss) for pair in pairs],
        conjunction=conditions,
        why=_HURTS_ALONE if test.confirmed and not harmless else "",
    )


def _alone(conjunction: Conjunction) -> Sequence[tuple[Condition, ShownConditions]]:
    return (conjunction.first, "first"), (conjunction.second, "second")


def _state(test: ConfirmationTest, loss: Estimate, *, harmless: bool) -> FindingState:
    if test.confirmed and harmless:
        return "breaks"
    return "holds" if test.n and loss.high is not None and loss.high < MARGIN else "cannot-tell"


def _dropped(each: ChosenConjunction, classifier: str) -> dict[str, int]:
    """The number of planned pairs that are not whole, by the reason of the first image that is missing."""
    whole = {id(images) for images in each.wholes(classifier)}
    lost = Counter(_why(images, classifier) for images in each.places.values() if id(images) not in whole)
    return dict(sorted(lost.items()))


def _why(images: Mapping[ShownConditions, Observation], classifier: str) -> str:
    answered = all(classifier in image.after for image in images.values())
    whole = REPEATED_DRAW if answered else "unanswered"
    return next((why_not(image) for image in images.values() if not image.done), whole)
