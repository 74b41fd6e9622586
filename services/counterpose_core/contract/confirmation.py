"""The stages of a stress test that confirm what its screen saw: their plan, their items, their sum."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from counterpose_core.contract.base import ResponseBody
from counterpose_core.types import BlobRef, EditType, Seed


class Wording(ResponseBody):
    """Words that an edit takes out of a caption and words that it puts in."""

    removed: str
    """Words to replace; empty to append the added words to the caption."""
    added: str
    """Words to put in their place; empty to delete the removed words."""


class SuspectedChange(Wording):
    """A change of words that the screen chose for confirmation; an empty side is left open."""

    edit_type: EditType
    """Factor that the change is about."""


class Condition(ResponseBody):
    """A phrase of captions, and the factor that it belongs to."""

    edit_type: EditType
    """Factor that the phrase belongs to."""
    words: str
    """The phrase."""


ShownConditions = Literal["first", "second", "both"]
"""Which of two conditions an image shows."""


class ConjunctionPart(ResponseBody):
    """One of the three images that show two conditions: each by itself, and both together."""

    conditions: list[Condition] = Field(min_length=2, max_length=2)
    """The two conditions that may hurt together, and neither alone."""
    shows: ShownConditions
    """Which of them this image shows."""


class Instruction(ResponseBody):
    """What a later stage of a stress test asks of one item; a placebo has no change."""

    change: SuspectedChange | None = None
    """The change to confirm, or null where the item is a control."""
    wording: Wording | None = None
    """The words by which this image shows it, or null for a control."""
    conjunction: ConjunctionPart | None = None
    """The conditions that the image is to show, or null if it is about one change."""
    second_wording: Wording | None = None
    """Words to change after those of `wording`, or null if that is all."""
    classifiers: list[str] = []
    """The classifiers that the screen suspects of losing under the change."""
    draw: Seed | None = None
    """Number of the draw, from 1: the image is made by the run's `redraw` settings from noise of its own.
    Null where it is made by the run's preset, once for each source image."""
    mask: BlobRef | None = Field(default=None, exclude_if=lambda mask: mask is None)
    """SHA-256 of the image's own mask, which bounds the run's region; absent where the run has none, or the
    suite's segmenter outlines the object. It is all that an item of the screen is told."""


WordingScope = Literal["plain", "replaced", "mixed"]
"""What the wordings of a change have in common. ``plain``: words go, or come in, and this alone was seen to
hurt. ``replaced``: other words take their place, or make room, in all images. ``mixed``: in some images, or
the plain wording was not seen to hurt by itself."""


ConfirmationScope = Literal["class", "images"]
"""What a test speaks of. ``class``: fresh images with one pair each stand for all of their class. ``images``:
several pairs of each image, made from noise of their own, so the test speaks of these images."""


class ConfirmationPlan(ResponseBody):
    """How a stress test divides its source images between the screen and the confirmation."""

    screened: int
    """Number of source images that the screen edits."""
    fresh: int
    """Number of source images that are kept for confirmation."""
    budget: int
    """Most items that the stages after the first may have; with it the run has no more items than a test of
    all its source images in one stage."""
    reason: str | None = None
    """Why the run has one stage only, or null where it can confirm."""
    operations: int = Field(default=0, exclude_if=lambda number: not number)
    """Number of source images that operations are carried out on, beside the edits; absent for none."""


class ConfirmationSummary(ConfirmationPlan):
    """What the confirmation of a stress test did, and by which rules it decides."""

    hypotheses: int
    """Number of pairs of classifier and change that were tested; Holm's correction covers all."""
    items: int
    """Number of items of the stages after the first."""
    level: float
    """Level of the tests, family-wise."""
    least_loss: float
    """Least mean loss of p(true class) of a finding."""
    margin: float
    """Loss that is ruled out where a change `holds`."""
