"""What stands beside a verdict: an interval that agrees with its test, and the rule that left it open."""

from __future__ import annotations

from counterpose_core.contract.findings import Confirmed
from counterpose_core.contract.stress_test_figures import Tested
from counterpose_core.stress_test.confirmation import (
    FUTILE_LOSS,
    LEAST_REDRAWN,
    LEAST_SOURCE_LOSS,
    LOSING_SHARE,
    MARGIN,
)
from counterpose_core.stress_test.screening import LEAST_LOSS, LEVEL, least_pairs
from counterpose_core.types import Estimate

LEAST_TOLD = 0.01
"""The least loss of two digits: the lower end where a test rules out 0 and bets do not."""


def settle_zero(loss: Estimate, *, ruled_out: bool | None) -> Estimate:
    """Return a loss with an interval that holds 0 exactly where its test does not rule 0 out.

    The interval is the set of losses that are not rejected. The loss 0 is rejected by relabelling, corrected
    for all that was tested; any other by bets. Bets must fear rare gains that no image showed, so alone they
    would deny half of what relabelling proves; relabelling shifted to other losses would not cover the mean
    of skewed ones. The verdict decides about 0 alone, so the lower end of a proven loss says only that there
    is one where bets say no more.

    Args:
        loss: the mean loss with its 95 % interval by bets.
        ruled_out: whether the test rules out 0 and the loss is proven, or it does not rule 0 out; None where
            it does and another rule leaves the loss open, so that the bets alone speak.
    """
    if loss.low is None or loss.estimate is None or ruled_out is None:
        return loss
    low = max(loss.low, min(LEAST_TOLD, loss.estimate)) if ruled_out else min(loss.low, 0.0)
    return loss.model_copy(update={"low": low})


def zero_ruled_out(*, shown: bool, p_adjusted: float) -> bool | None:
    """Return what a corrected test says of a loss of 0, as `settle_zero` takes it."""
    if shown:
        return True
    return None if p_adjusted <= LEVEL else False


def why_undecided(tested: Confirmed) -> str:
    """Return the rule by which a test decided nothing, in words."""
    pairs = tested.n_pairs or tested.loss.n
    if tested.loss.estimate is None or not pairs:
        return f"none of {tested.planned} planned pairs was kept."
    why = f"{_failed_rule(tested, pairs, tested.loss.estimate)}."
    if tested.loss.high is not None and tested.loss.high < MARGIN:
        return why
    return f"{why} Nor does it hold: that takes a loss of {MARGIN:.2f} to be ruled out."


def _failed_rule(tested: Confirmed, pairs: int, loss: float) -> str:
    if tested.stopped:
        return f"it was given up after {pairs} pairs, whose mean loss was below {FUTILE_LOSS:.2f} at the look"
    if tested.p_adjusted > LEVEL:
        return f"{_unproven(tested, pairs)}, so the interval holds 0"
    if loss < LEAST_LOSS:
        return f"a mean loss below {LEAST_LOSS:.2f} counts for nothing"
    return (
        f"at least {LEAST_REDRAWN} of the images, and {LOSING_SHARE:.0%} of them, must lose "
        f"{LEAST_SOURCE_LOSS:.2f} or more, so that no odd image decides"
    ).replace("%", " %")


def _unproven(tested: Confirmed, pairs: int) -> str:
    """Why a test does not rule out 0: too few pairs for any proof, or a p or evidence that falls short."""
    if tested.e_value is not None:
        needed = tested.family_size / LEVEL
        return f"the evidence is {tested.e_value:.3g}, and a proof takes {needed:,.0f}"
    least = least_pairs(tested.family_size) if tested.family_size else 0
    if tested.scope == "class" and pairs < least:
        of = f"with {tested.family_size} changes tested, " if tested.family_size > 1 else ""
        return f"there are too few pairs, {pairs} of at least {least}: {of}p must be at most {LEVEL:.2f}"
    return f"p must be at most {LEVEL:.2f} after the correction"


def why_hint(tested: Tested, sources: int, level: float) -> str:
    """Return the rule by which a change that a screen saw is not shown by the same images, in words."""
    if tested.p is None:
        return "no placebo was kept to compare it with."
    if tested.p_adjusted is None:
        return f"{too_few(sources, tested.sources_needed)}."
    if tested.p_adjusted > level:
        return f"p must be at most {level:.2f} after the correction over {tested.family_size} changes."
    beyond = tested.beyond_controls
    if beyond is not None and beyond.estimate is not None and beyond.estimate < LEAST_LOSS:
        return f"a mean loss below {LEAST_LOSS:.2f} counts for nothing."
    return "the interval of the loss, or of the fall from the original, holds 0."


def too_few(images: int, needed: int | None) -> str:
    """Say that images are too few for a test, and how many it takes."""
    return f"too few images, {images} of at least {needed}" if needed else "too few images"
