"""Operations in a stress test: which are asked for, what came of each image, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from counterpose_core.contract.base import Distinct, RequestBody, ResponseBody
from counterpose_core.contract.findings import by
from counterpose_core.contract.recipes import LARGEST_SIZE, WORKING_SIZE
from counterpose_core.contract.severity import STATED_LOSS, Severity, SeverityPlan, SeveritySummary
from counterpose_core.types import Estimate, Name

SMALLEST_SIZE = 32
LEAST_LOSS = 0.05
OperationState = Literal["breaks", "suspected", "cannot-tell", "holds"]
"""A loss is shown, of pairs with or without a control; may be there; is below the margin at every level."""


Among = Literal["dataset", "model"]
"""Among which classes a classifier answers: the dataset's, or all of its own besides."""


Masks = Literal["any", "own"]
"""Masks that operations use: also those of the suite's segmenter, or only those that images came with."""


Level = Annotated[int, Field(ge=1, le=5)]


class TransformChoice(RequestBody):
    """The operations of a stress test: each is carried out on every image, at each of its levels."""

    operations: Distinct[list[Name] | None] = Field(default=None, min_length=1, max_length=100)
    """Names of the operations, or null for the suite's."""
    levels: Distinct[list[Level] | None] = Field(default=None, min_length=1, max_length=5)
    """Levels, from 1 for the slightest to 5; null for the suite's. An operation without more or less, such as
    a flip, has level 1 only and is carried out whatever the levels."""
    size: int | None = Field(default=WORKING_SIZE, ge=SMALLEST_SIZE, le=LARGEST_SIZE)
    """Pixels of the longest side to which an image is reduced before anything is done to it; null for its
    own. No image is enlarged."""
    among: Among = "dataset"
    """Classes that a classifier may answer: the dataset's only, or all of its own besides."""

    excluded: dict[str, list[Name]] = Field(
        default={}, max_length=10_000, exclude_if=lambda excluded: not excluded
    )
    """Operations that are not carried out on images of a class, as they would change its label, by class;
    besides those that may change letters, digits, arrows or signs, on classes that are called so."""
    backgrounds: Name | None = Field(default=None, exclude_if=lambda name: name is None)
    """Name of a dataset whose photographs become backgrounds; null for the backgrounds of the dataset's own
    other photographs."""
    masks: Masks = Field(default="any", exclude_if=lambda masks: masks == "any")
    """Masks of operations that need one: the images' own and, for images without, those that the suite's
    segmenter makes (`any`), or the images' own only (`own`)."""
    severity: Severity | None = Field(default=None, exclude_if=lambda severity: severity is None)
    """How the level is found at which each image fails: `grid` asks every level of it, `adaptive` every level
    of a tenth of the images and of the others as few as find it; where `levels` is null, all five. Null for
    no such search."""
    severity_loss: float = Field(
        default=STATED_LOSS, gt=0.0, le=1.0, exclude_if=lambda loss: loss == STATED_LOSS
    )
    """Loss of accuracy of which `severity` tells at which level it is reached."""
    least_loss: float = Field(default=LEAST_LOSS, ge=0.0, lt=1.0, exclude_if=lambda loss: loss == LEAST_LOSS)
    """Loss of accuracy that an operation must be shown to exceed for a finding; 0 for any that is shown."""
    pairs: Name | None = Field(default=None, exclude_if=lambda name: name is None)
    """Name of a dataset of pairs that were made elsewhere: their images stand in the place of operations, and
    nothing else is carried out. Null to carry out operations."""

    @field_validator("severity_loss")
    @classmethod
    def _of_severity(cls, loss: float, info: ValidationInfo) -> float:
        if loss != STATED_LOSS and info.data.get("severity") is None:
            raise ValueError("only severity tells where a loss is reached; ask for it, or leave the loss out")
        return loss

    @field_validator("pairs")
    @classmethod
    def _alone(cls, name: str | None, info: ValidationInfo) -> str | None:
        chosen = [
            field for field in ("operations", "levels", "excluded", "backgrounds") if info.data.get(field)
        ]
        chosen += ["masks"] if info.data.get("masks") == "own" else []
        if name is not None and chosen:
            raise ValueError(f"pairs are tested alone; leave {chosen[0]} out")
        if name is not None and info.data.get("severity") == "adaptive":
            raise ValueError("every level of given pairs is there already; ask for the severity 'grid'")
        return name


class RowsLeftOut(ResponseBody):
    """Rows of a table of pairs that are not tested, for one reason."""

    reason: str
    """Why they are not tested."""
    number: int
    """Number of them."""
    names: list[str]
    """File names of the first of them."""

    def __str__(self) -> str:
        more = f" and {self.number - len(self.names)} more" if self.number > len(self.names) else ""
        return f"{self.number}: {self.reason} ({', '.join(self.names)}{more})"


class GivenPairs(ResponseBody):
    """Where given pairs come from, and what became of each row of their table."""

    dataset: str
    """Name of the dataset of pairs."""
    digest: str
    """SHA-256 over all rows: source, change, level and image of each."""
    rows: int
    """Number of images in it, controls among them."""
    used: int
    """Number of them that stand in the tests."""
    controls: bool
    """Whether every source has a control, made in the same way with nothing changed."""
    left_out: list[RowsLeftOut] = []
    """The others, by the reason."""

    def __str__(self) -> str:
        against = (
            "Each is held against its control, made in the same way with nothing changed."
            if self.controls
            else "They have no controls: a loss includes what their making cost, so it is suspected at most."
        )
        out = "".join(f" Left out, {each}." for each in self.left_out)
        return (
            f"The pairs were given, not made here: {self.used} of {self.rows} images of {self.dataset} "
            f"(table {self.digest[:12]}). {against}{out}"
        )


class TransformPlan(ResponseBody):
    """The operations of a run, as they were resolved when it was created."""

    operations: dict[str, list[int]]
    """The levels of each operation, by its name."""
    left_out: dict[str, str] = {}
    """Why an operation that was asked for is not carried out, by its name."""
    size: int | None
    """Pixels of the longest working side, or null for each image's own."""
    scaled: bool = Field(default=False, exclude_if=lambda scaled: not scaled)
    """Whether any image has another longest side than 224 pixels then: the lengths of the corruptions of
    ImageNet-C are scaled to it."""
    others: dict[str, list[str]] = {}
    """Classes of each classifier that are none of the dataset's, among which it answers too; empty where it
    answers among the dataset's only."""
    placebos: dict[str, list[int]] = Field(default={}, exclude_if=lambda placebos: not placebos)
    """Levels of the operations that stand beside others as their placebos, by name."""
    excluded: dict[str, dict[str, str]] = Field(default={}, exclude_if=lambda excluded: not excluded)
    """Why operations are not carried out on images of a class, by class and operation."""
    given: GivenPairs | None = Field(default=None, exclude_if=lambda given: given is None)
    """Where the images come from that stand in the place of operations, or null for none; then `operations`
    has the changes with their levels."""
    segmenter: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """The segmenter that outlines the objects of images without a mask; absent where none is asked."""
    severity: SeverityPlan | None = Field(default=None, exclude_if=lambda severity: severity is None)
    """How levels are asked to find where images fail, or null where that is not asked for."""
    least_loss: float = Field(default=0.0, exclude_if=lambda loss: not loss)
    """Loss that must be shown to be exceeded for a finding; absent where that is 0, as in runs of earlier
    versions."""

    @property
    def is_adaptive(self) -> bool:
        """Whether most images are asked few of the levels, and what is claimed is tested in a later stage."""
        return self.severity is not None and self.severity.plan == "adaptive"

    @property
    def made(self) -> dict[str, list[int]]:
        """The levels of all operations that are carried out, those of placebos among them."""
        beside = {name: {*levels, *self.operations.get(name, ())} for name, levels in self.placebos.items()}
        return self.operations | {name: sorted(levels) for name, levels in beside.items()}

    @property
    def images(self) -> int:
        """The images that are made of a photograph: its control, its placebo, and each level."""
        return 2 + sum(len(levels) for levels in self.made.values())


class OperationLevel(ResponseBody):
    """One level of an operation: what it costs a classifier, beside the same images at their working size."""

    level: int
    """The level, from 1 for the slightest."""
    words: str
    """What the image does or is then; it follows "the image"."""
    accuracy: Estimate
    """Share of the images that are answered rightly."""
    loss: Estimate
    """Accuracy of the control less this one, over groups of images."""
    lost: int
    """Number of images that are no longer answered rightly."""
    gained: int
    """Number of images that are answered rightly only with the operation."""
    p: float
    """Two-sided p of a loss of the run's least loss or less; where that is 0, of no change."""
    shown: bool
    """Whether a loss above the least loss is shown after correction over all operations."""
    real: bool = False
    """Whether a loss above 0 is; false in summaries of earlier versions, whose least loss is 0."""
    flipped: list[str] = []
    """Ids of images that are no longer answered rightly, the surest before first."""
    placebo: Estimate | None = Field(default=None, exclude_if=lambda placebo: placebo is None)
    """Loss by the same cut and paste before the image's own background, over the same images; absent where
    nothing is cut out."""


def headline_level(levels: Sequence[OperationLevel]) -> OperationLevel:
    """Return the easiest level that shows a loss; without one, that which may lose most."""
    undecided = max(levels, key=lambda level: level.loss.high or 0.0)
    return next((level for level in levels if level.shown), undecided)


class OperationFinding(ResponseBody):
    """What an operation costs a classifier, of all classes together or of one."""

    number: int = 0
    """Place in the list of findings, from 1, by which one is proven or applied: those of all classes together
    come first, then those of single classes. 0 in summaries of earlier versions."""
    classifier: str
    """The classifier."""
    operation: str
    """Name of the operation."""
    backend: str | None = Field(default=None, exclude_if=lambda backend: backend is None)
    """What made its images, in a run of edits and operations; absent in a run of one of them."""
    state: OperationState
    """`breaks`: a loss above the least loss is shown; `suspected`: of given pairs that have no control;
    `holds`: every level's interval excludes a loss of the margin; `cannot-tell`: neither."""
    images: int
    """Number of images, of its class if it has one, with an answer to each level."""
    sentence: str
    """The finding in one sentence."""

    def __str__(self) -> str:
        state = f"{self.state:12}" if self.backend is None else f"{self.state}{by(self.backend)}:"
        return f"{self.number or '':>3} {state} {self.sentence}".lstrip()


class OperationFigure(OperationFinding):
    """What an operation costs a classifier, level by level."""

    object_class: ClassVar[str] = ""
    title: str
    """What it is called."""
    family: str
    """Its family, such as `camera` or `geometry`."""
    changes: str
    """What it changes, in a line."""
    keeps: str
    """What it must not change, in a line."""
    from_level: int | None = None
    """The easiest level from which on every level shows a loss, or null."""
    left_out: int = 0
    """Number of images that it was not carried out on, such as those that are too small."""
    reasons: dict[str, int] = Field(default={}, exclude_if=lambda reasons: not reasons)
    """Number of these images by the reason."""
    levels: list[OperationLevel]
    """The levels, the easiest first."""

    @property
    def headline(self) -> OperationLevel:
        """The level that its sentence tells."""
        return headline_level(self.levels)


class ClassFinding(OperationFinding):
    """A loss of one class that is shown, from a level of an operation on."""

    state: OperationState = "breaks"
    """`breaks`: only what is shown is listed."""
    object_class: str
    """The class."""
    level: int
    """The easiest level from which on every level shows a loss."""
    lost: int
    """Number of them that are no longer answered rightly."""
    gained: int
    """Number of them that are answered rightly only with the operation."""
    loss: Estimate
    """Accuracy of the control less this one, over groups of its images."""
    p: float
    """Two-sided p of a loss of the run's least loss or less; where that is 0, of no change."""
    flipped: list[str] = []
    """Ids of images that are no longer answered rightly, the surest before first."""

    @property
    def headline(self) -> ClassFinding:
        """The level that its sentence tells: it has no other."""
        return self


class ClassTests(ResponseBody):
    """The tests of single classes: each classifier, operation and class with enough images."""

    least: int
    """Number of independent images from which a class is tested: with fewer, losing all of them would not
    show a loss after correction."""
    classes: int
    """Number of classes that have as many."""
    too_small: int
    """Number of classes that have fewer, of which nothing can be said."""
    tested: int
    """Number of tests, over which is corrected."""
    findings: list[ClassFinding]
    """The losses that are shown, the largest first."""
    sentence: str
    """What the tests say together, in one sentence."""


LEAST_OVERLAP = 0.75
"""Mean intersection over union with known masks below which nothing is said by a segmenter's masks."""


class MaskSummary(ResponseBody):
    """Where masks come from that no image came with."""

    segmenter: str
    """The segmenter that made them."""
    images: int
    """Number of images whose mask it made."""
    missing: dict[str, int] = {}
    """Number of images without a mask that got none, by the reason."""
    overlap: Estimate
    """Intersection over union of its masks with those that images came with, over these images; n is 0 where
    no image came with one."""

    @property
    def sentence(self) -> str:
        """How far the masks can be trusted."""
        known, made = self.overlap, f"The masks of {self.images} images are a segmenter's"
        if known.estimate is None or known.low is None or known.high is None:
            return f"{made}: how good they are is not known, as no image came with one."
        used = "; too little, so they are not used" if self.distrust else ""
        interval = f"{known.low:.2f} to {known.high:.2f}"
        return f"{made}: it overlaps {known.n} known ones by {known.estimate:.2f} ({interval}){used}."

    @property
    def distrust(self) -> str:
        """Why the segmenter's masks are not used; empty where they are."""
        known = self.overlap.estimate
        if known is None or known >= LEAST_OVERLAP:
            return ""
        return (
            f"the segmenter's masks overlap those that are known by {known:.2f}, less than {LEAST_OVERLAP:g}"
        )


class TransformSummary(ResponseBody):
    """What operations on the images cost each classifier."""

    images: int
    """Number of images that were answered."""
    groups: int
    """Number of groups of them: frames of one photograph count once."""
    size: int | None
    """Pixels of the longest working side, or null for each image's own."""
    among: dict[str, int]
    """Number of classes among which each classifier answers, the dataset's first."""
    tested: int
    """Number of operations times classifiers, over which is corrected."""
    margin: float
    """Loss that an operation must exclude to hold."""
    least_loss: float = Field(default=0.0, exclude_if=lambda loss: not loss)
    """Loss that an operation must be shown to exceed to break; absent where that is 0."""
    controls: dict[str, Estimate]
    """Accuracy on the images at their working size with nothing changed, by classifier."""
    placebos: dict[str, Estimate]
    """Loss by the placebo, every value moved by at most one step, by classifier."""
    figures: list[OperationFigure]
    """Each operation and classifier, the worst first."""
    classes: ClassTests | None = None
    """The tests of single classes; null in summaries of earlier versions."""
    left_out: dict[str, str] = {}
    """Why an operation that was asked for was not carried out, by its name."""
    given: GivenPairs | None = Field(default=None, exclude_if=lambda given: given is None)
    """Where the images come from, if they were given; absent where operations made them."""
    making: dict[str, Estimate] = Field(default={}, exclude_if=lambda making: not making)
    """Loss by the making of given pairs alone, from the sources to their controls, by classifier; absent
    without controls."""
    masks: MaskSummary | None = Field(default=None, exclude_if=lambda masks: masks is None)
    """The masks that a segmenter made; absent where none was asked."""
    severity: SeveritySummary | None = Field(default=None, exclude_if=lambda severity: severity is None)
    """From which level on images fail, or null where that was not asked for."""

    @property
    def findings(self) -> list[OperationFigure | ClassFinding]:
        """All findings by number: each operation, then single classes."""
        return [*self.figures, *(() if self.classes is None else self.classes.findings)]

    @property
    def lines(self) -> list[str]:
        """What is shown, line by line."""
        beside = [each.sentence for each in (self.classes, self.masks) if each is not None]
        rest = [*(self.severity.lines if self.severity else ()), *([str(self.given)] if self.given else ())]
        left_out = [f"{name} was left out, as {why}." for name, why in self.left_out.items()]
        return [*map(str, self.findings), *left_out, *beside, *rest]
