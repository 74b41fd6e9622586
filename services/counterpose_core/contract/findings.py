"""Findings: what a change of the images does to a classifier, and how certain that is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.confirmation import (
    Condition,
    ConfirmationScope,
    SuspectedChange,
    Wording,
    WordingScope,
)
from counterpose_core.types import Estimate

FindingState = Literal["breaks", "suspected", "holds", "cannot-tell", "test-unfit"]
"""``breaks``: shown on images, or draws of images, that the screen did not use. ``suspected``: seen in the
screen, not tested. ``holds``: a loss above the margin is ruled out. ``cannot-tell``: neither. ``test-unfit``:
the controls alone change so much that nothing can be said of the classifier."""


def by(backend: str | None) -> str:
    """Return which backend made a finding's images, to follow its state; nothing in a run of one backend."""
    return "" if backend is None else f", by {backend}"


class Screened(ResponseBody):
    """What the screen saw of a change; it ranks changes and promises nothing, so it has no p-value."""

    loss: float
    """Mean fall of p(true class) beyond the control of the same source image. The change was chosen because
    this is large, so it overstates the true loss."""
    n_sources: int
    """Number of source images with an edit and a control; a group of them counts once."""
    n_images: int
    """Number of edited images."""
    flipped: int
    """Number of source images for which an edit makes a right answer wrong."""


class Confirmed(ResponseBody):
    """A test of the change on images that the screen did not use: other source images, or other draws."""

    scope: ConfirmationScope = "class"
    """`class` if the pairs are of fresh source images, one each; `images` if several pairs of each source
    image were drawn, so that the test speaks of these images alone."""
    n_sources: int = 0
    """Number of source images with a pair, a group once; 0 in runs of older versions."""
    n_pairs: int = 0
    """Number of pairs, of which a source image has several if they were drawn."""
    loss: Estimate
    """Mean of p(true class) of the placebo minus that of the edit, each source image, or group of them, with
    weight 1, with a 95 % interval by betting, for this change alone; n counts source images, those of a group
    once, or pairs if the scope is `images`. The corrected test alone decides whether the interval holds 0: it
    does where `p_adjusted` is above the level, and does not where the finding `breaks`, whose lower end is
    then at least 0.01."""
    planned: int
    """Number of pairs that were planned."""
    dropped: dict[str, int] = {}
    """Number of planned pairs left out, by reason."""
    stopped: bool
    """Whether the test ended for futility after its first pairs; its p-value is then 1."""
    e_value: float | None = None
    """Evidence of all runs that prove the finding, valid whenever one stops; `p` is its inverse. Null for the
    test of one run."""
    p: float
    """One-sided p-value by sign flips over pairs; 1 where the test was stopped."""
    p_adjusted: float
    """The p-value after Holm's correction over all tested changes."""
    family_size: int
    """Number of changes that were chosen for confirmation."""
    flipped: int
    """Number of pairs in which the placebo is answered rightly and the edit wrongly."""


class FindingPair(ResponseBody):
    """One source image with its control and its edit, both items of the run."""

    source: str
    """Id of the source image."""
    control: str | None
    """Id of the item with the placebo or reconstruction, or null if none was kept."""
    edit: str
    """Id of the item with the edited image."""
    loss: float
    """p(true class) of the control minus that of the edit."""
    answer: str
    """Class that the classifier predicts for the edited image."""


class WordingCount(Wording):
    """One wording of a change, and how many images show it."""

    n: int
    """Number of images that were edited by these words."""
    flipped: int = 0
    """Number of them that make a right answer wrong."""
    loss: float | None = None
    """Mean loss of p(true class), each source with weight 1."""
    p: float | None = None
    """One-sided p-value of these pairs alone, not corrected for the number of tests; null with fewer than 8
    pairs."""
    named: bool = True
    """Whether the finding's sentence and figures include it; not if it parts from those that hurt, or was
    tested with another change."""


class ConditionCount(Condition):
    """One of two conditions, and what the classifier answers where it holds alone."""

    n: int
    """Number of images with this condition alone."""
    wrong: int
    """Number of them that are answered wrong."""


class Finding(ResponseBody):
    """A change that costs one classifier its answer on one class, with its evidence and its images."""

    number: int
    """Place in the list of findings, from 1."""
    state: FindingState
    """How certain the finding is."""
    backend: str | None = Field(default=None, exclude_if=lambda backend: backend is None)
    """What made its images, in a run of edits and operations; absent in a run of one of them."""
    classifier: str
    """Name of the classifier."""
    object_class: str
    """The true class; empty where an operation is about all of them."""
    edit_type: str
    """Factor that the edits change, or the name of an operation."""
    level: int | None = Field(default=None, exclude_if=lambda level: level is None)
    """Level of the operation that it tells; absent for a change of words."""
    removed: str
    """Words that the edits remove; empty where they only add some, or remove various ones."""
    added: str
    """Words that the edits add; empty where they only remove some, or add various ones."""
    wordings: list[WordingCount] = []
    """The wordings that were tested or seen, the most frequent first; `named` says which the finding speaks
    of."""
    wording_scope: WordingScope = "plain"
    """`plain` if words go, or come in, and this alone was seen to hurt; `replaced` if other words take their
    place, or make room; `mixed` if some do, or it is not known which hurts."""
    conjunction: list[ConditionCount] = []
    """Two conditions that were tested together, against images with one of them; then `removed` and `added`
    are empty, and the control of each pair is that of the two images with one condition on which p(true
    class) is lower. Empty for a change of words."""
    tested: SuspectedChange | None = None
    """The change as it was tested, where its wordings part and the finding names those that hurt; else
    null."""
    taken_for: str | None
    """Class that the edited images are most often mistaken for, or null if every answer stays right."""
    flipped: int
    """Number of images, out of `of`, for which the change makes the answer wrong."""
    of: int
    """Number of images that `flipped` counts among: fresh ones if there was a test."""
    screened: Screened
    """What the screen saw."""
    confirmed: Confirmed | None
    """The test on other images, or null if there was none."""
    why: str = ""
    """The rule by which nothing was decided, in words, where the state is `cannot-tell`; empty for any
    other."""
    pairs: list[FindingPair]
    """Its images, the pair with the median loss first."""
    sentence: str
    """The finding in one sentence of at most 20 words. Where it `breaks`, a second one lists the wordings
    that too few images test alone."""

    @property
    def standing(self) -> str:
        """Its state in words, and what made its images where the run says so."""
        return f"{self.state.replace('-', ' ')}{by(self.backend)}"

    def __str__(self) -> str:
        said = f"{self.number} {self.standing}: {self.sentence}"
        if self.why:
            said += f"\nwhy it cannot tell: {self.why}"
        if self.level is not None:
            return said
        if self.confirmed is None:
            return f"{said}\nnot tested on images that the screen did not use"
        return f"{said}\nloss of p({self.object_class}) {self.confirmed.loss}"


class ClassifierVerdict(ResponseBody):
    """What a stress test says of one classifier: the state of its strongest finding."""

    classifier: str
    """Name of the classifier."""
    state: FindingState
    """The state of its strongest finding, or why there is none."""
    finding: int | None
    """Number of that finding, or null if there is none."""
    sentence: str
    """The verdict in words: those of its finding, or, without one, why there is none."""
    ruled_out: float | None = None
    """Smallest loss of accuracy, from 0 to 1, that the run rules out at 95 %, or null if it rules out
    none."""
