"""What an operation costs a classifier in one sentence: in one run, and over all runs that prove it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.transforms import OperationLevel
from counterpose_core.stress_test.confirmation import MARGIN
from counterpose_core.types import Estimate
from counterpose_gateway.reports.numbers import counted

LOSES: Mapping[FindingState, str] = MappingProxyType({"breaks": "loses", "suspected": "is suspected to lose"})
"""What is said of a loss that is shown."""

_POINT = 0.01


def operation_sentence(
    state: FindingState, name: str, words: str, loss: Estimate, counts: tuple[int, int, int], label: str = ""
) -> str:
    """Say what an operation costs a classifier.

    Args:
        state: how sure that is.
        name: the classifier.
        words: what the image does or is then.
        loss: the loss of accuracy.
        counts: how many images are lost, of how many, and how many are gained.
        label: the class that alone it speaks of; empty for all.
    """
    lost, images, gained = counts
    told = f"{lost} of {images} images answered wrong that were right, {gained} the other way"
    of = f" on the class {label!r}" if label else ""
    if state in LOSES:
        points = counted(round(100 * (loss.estimate or 0.0)), "point")
        return f"{name} {LOSES[state]} {points} of accuracy{of} once the image {words}: {told}."
    # Outwards: what is ruled out must not lie inside the interval.
    low, high = math.floor(100 * (loss.low or 0.0)), math.ceil(100 * (loss.high or 0.0))
    if state == "holds":
        excluded = f"a loss above {counted(high, 'point')}" if high > 0 else "a loss"
        return f"{name} holds{of} where the image {words}: {excluded} is ruled out; {told}."
    span = f"{max(0, low)} to {counted(high, 'point')}"
    return f"{name} may lose {span}{of} where the image {words}: {told}; more images decide."


def too_few_right(name: str, right: int, images: int) -> str | None:
    """Why a small loss says nothing: who is right on no more than the margin cannot lose so much."""
    if right > MARGIN * images:
        return None
    return (
        f"{name} is right on {right} of {images} images with nothing changed, too few to lose "
        f"{counted(round(100 * MARGIN), 'point')} of accuracy."
    )


def beside(level: OperationLevel) -> str:
    """What the placebo of a background costs, after the sentence of what the background costs."""
    placebo = level.placebo
    if not level.shown or placebo is None or placebo.estimate is None:
        return ""
    points, low, high = (
        math.floor(100 * (value or 0.0) + 0.5) for value in (placebo.estimate, placebo.low, placebo.high)
    )
    # The cut alone may cost what the background seems to.
    doubt = ": the cut itself may be what hurts" if (placebo.high or 0.0) >= (level.loss.low or 0.0) else ""
    cost = counted(points, "point") if points > 0 else "nothing"
    before = "The same cut and paste before its own background, mirrored,"
    return f" {before} costs {cost} ({low} to {high} points){doubt}."


def real_loss(levels: Sequence[OperationLevel], told: OperationLevel, least: float) -> str:
    """The loss at the hardest level that is shown to be one, and not to be a finding; after its sentence."""
    loss = levels[-1].loss
    if told.shown or not levels[-1].real or loss.estimate is None:
        return ""
    points, low, high = (round(100 * (value or 0.0)) for value in (loss.estimate, loss.low, loss.high))
    where = "" if levels[-1] is told else f" where it {levels[-1].words}"
    less, all_tests = "not shown to be more than", ", all tests counted"
    if (loss.high or 0.0) < least:
        less, all_tests = "less than", ""
    unit = "point" if least == _POINT else "points"
    return (
        f" A loss of {counted(points, 'point')} ({low} to {high}){where} is real, and {less} the "
        f"{100 * least:g} {unit} that this run calls a break{all_tests}."
    )


def doubt(state: FindingState, levels: Sequence[OperationLevel]) -> str:
    """What stands against a sentence: no control to tell the change from its making, or levels reversed."""
    said = ""
    if state == "suspected":
        said = " The pairs have no control, so the way in which they were made may be what costs it."
    first, last = levels[0], levels[-1]
    if (first.loss.low or 0.0) > (last.loss.high or 0.0):
        said += (
            f" Level {first.level} costs more than level {last.level}: levels count from the slightest, so "
            "number them anew if these do not."
        )
    return said
