"""Severity in a stress test of operations: which levels are asked, where images fail, who holds longest."""

from typing import Literal

from pydantic import Field

from counterpose_core.contract.base import ResponseBody
from counterpose_core.types import Estimate

Severity = Literal["adaptive", "grid"]
"""How levels are asked: all of each image, or all of a tenth, and of the others by bisection."""

STATED_LOSS = 0.1
"""The loss whose level is told, where nothing else is asked for."""


class SeverityPlan(ResponseBody):
    """How the levels of a run are asked, as it was resolved when the run was created."""

    plan: Severity
    """`grid`: every level of every image; `adaptive`: of most images only the levels that find where they
    fail."""
    loss: float
    """The loss of accuracy whose level is told."""
    full_share: float
    """Share of independent images that get every level, drawn by the seed."""


class SeverityLevel(ResponseBody):
    """A level of an operation: accuracy, loss and failures, each with a pointwise 95 % interval."""

    level: int
    """The level, from 1 for the slightest."""
    words: str
    """What the image does or is then; it follows "the image"."""
    accuracy: Estimate
    """Share of the images that are answered rightly."""
    loss: Estimate
    """Accuracy at level 0 less this one, of the same images."""
    failing: int
    """Number of images whose failure point this is, as far as their levels were asked."""
    failed: Estimate
    """Share of the images that are right at level 0 that have failed at this level or before."""


class LevelOfLoss(ResponseBody):
    """The level at which the stated loss is reached, between levels by straight lines."""

    loss: float
    """The stated loss of accuracy."""
    level: float | None
    """The level, or null if the levels do not reach it."""
    low: float | None
    """Lower end of the 95 % interval, or null if it lies beyond the levels."""
    high: float | None
    """Upper end of the 95 % interval, or null if it may not be reached within the levels."""

    def __str__(self) -> str:
        points = f"a loss of {100 * self.loss:.0f} points"
        if self.low is None:
            return f"{points} is not reached within the levels"
        if self.level is None:
            return f"{points} is not reached, or only from level {self.low:.1f} on"
        end = "beyond the levels" if self.high is None else f"{self.high:.1f}"
        return f"{points}: at level {self.level:.1f} ({self.low:.1f} to {end})"


class MonotonicityFigure(ResponseBody):
    """Whether images of the full grid follow the order of levels, on which bisection rests."""

    n: int
    """Number of independent images with every level before anything was chosen."""
    violated: int
    """Number of them of which bisection would say something wrong at any level."""
    tolerance: float
    """Share of such images that is tolerated."""
    p: float
    """Exact one-sided p of at most this share."""
    rejected: bool
    """Whether more is shown: then the operation was run in full."""


class SeverityFigure(ResponseBody):
    """From which level on an operation makes a classifier fail, and on how many images."""

    classifier: str
    """The classifier."""
    operation: str
    """Name of the operation."""
    title: str
    """What it is called."""
    images: int
    """Number of images."""
    groups: int
    """Number of groups of them: frames of one photograph count once."""
    right: int
    """Number of images that are answered rightly at level 0: the others have no failure point."""
    never: Estimate
    """Share of these that fail at no level."""
    levels: list[SeverityLevel]
    """The levels, the easiest first."""
    loss_level: LevelOfLoss
    """Where the stated loss is reached."""
    monotonicity: MonotonicityFigure
    """The test of the order of levels."""
    in_full: bool
    """Whether every image has every level."""
    claimed: int | None = None
    """The level that the screened half chose and the other half tests; null where every level is tested."""
    classifications: int
    """Number of classifications at levels."""
    of_grid: int
    """Number of classifications that every level of every image takes."""
    sentence: str
    """What the figure says, in one sentence."""

    def __str__(self) -> str:
        return self.sentence


class RankOfLevel(ResponseBody):
    """The rank of a classifier at a level."""

    rank: int
    """The rank, 1 for the most accurate."""
    low: int
    """The best rank that cannot be excluded."""
    high: int
    """The worst rank that cannot be excluded."""


class RanksAtLevel(ResponseBody):
    """The ranks of all classifiers at a level."""

    level: int
    """The level; 0 with nothing changed."""
    ranks: dict[str, RankOfLevel]
    """The rank of each classifier. All of an operation hold together with 95 %."""


class OperationRanks(ResponseBody):
    """How classifiers rank by level of one operation, on the images that all of them answered."""

    operation: str
    """Name of the operation."""
    title: str
    """What it is called."""
    groups: int
    """Number of independent images."""
    levels: list[RanksAtLevel]
    """Level 0 and each level, the easiest first."""
    changes: list[str]
    """Each order of two classifiers that is shown at level 0 and turned round at a level, in a sentence."""


class MeanErrorFigure(ResponseBody):
    """The mean error of a classifier over operations and levels."""

    classifier: str
    """The classifier."""
    name: Literal["mean error", "mean corruption error"]
    """`mean corruption error` (mCE) where its definition holds: AlexNet's published errors are 1."""
    figure: Estimate
    """The figure, over independent images that have every operation."""
    relative: Estimate | None = None
    """The relative mean corruption error; null of a plain mean error."""


class SeveritySummary(ResponseBody):
    """From which level on operations make classifiers fail. All intervals are of 95 % and pointwise."""

    plan: SeverityPlan
    """How levels were asked."""
    shares: dict[str, int]
    """Number of independent images with every level (`full`), bisected (`screened`), and on which claims are
    tested (`tested`); empty for a grid."""
    classifications: int
    """Number of classifications at levels, of all classifiers."""
    of_grid: int
    """Number of them that every level of every image takes."""
    figures: list[SeverityFigure]
    """Each operation and classifier, in the order of the findings."""
    ranks: list[OperationRanks] = []
    """The ranks by level of each operation; empty of one classifier."""
    mean_errors: list[MeanErrorFigure] = []
    """The mean error of each classifier."""
    why_no_mce: str | None = Field(default=None)
    """Why there is no mean corruption error, or null where there is."""
    sentence: str
    """What it took, in one sentence."""

    @property
    def lines(self) -> list[str]:
        """What is shown, line by line."""
        changes = [change for each in self.ranks for change in each.changes]
        return [self.sentence, *map(str, self.figures), *changes]
