"""Bodies of ``/v1/gates``: a candidate classifier against the incumbent on a frozen regression set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from counterpose_core.contract.base import ClientBody, Distinct, ResponseBody
from counterpose_core.contract.classifiers import MappedClassifiers
from counterpose_core.contract.recipes import ImageRef
from counterpose_core.contract.runs import Provenance, RequestCounts, RunItem, RunSummary
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.tasks import CLASSIFICATION, AnyTask, is_classification
from counterpose_core.gate import LEAST_UNITS
from counterpose_core.types import BlobRef, ClassifierSpec, Cost, Estimate, RunKind, Seed

GateOutcome = Literal["passed", "failed", "inconclusive", "error"]
"""What a gate says of the candidates: ``error`` where the run did not answer every pair."""

CellState = Literal["passed", "failed", "inconclusive", "error", "skipped"]
"""What one cell says: ``skipped`` where it has too few images for a test."""

TOLERANCE = 0.10
"""The regression that is allowed by default: at which a stress test says that a change holds."""


FAILURE_POINT = ": failure point"
"""What the name of a change ends with that is the least level from which an operation breaks an image."""


class RegressionSetOf(ClientBody):
    """``POST /v1/gates/freeze``: the run whose pairs are frozen."""

    baseline: str = Field(min_length=1, max_length=64)
    """Id of the ended stress test or shift benchmark."""


class UntestedClasses(ResponseBody):
    """The classes that have too few source images under one change for a test of their own."""

    change: str | None
    """What differs from the source images, or null for the source images themselves."""
    sources: dict[str, int]
    """Number of independent source images of each of these classes, which may be 0."""
    classes: int = Field(ge=1)
    """Number of all classes of the set."""

    def __str__(self) -> str:
        images = ", ".join(f"{label} {number}" for label, number in self.sources.items())
        return f"{len(self.sources)} of {self.classes} classes: {images}"


class RegressionSet(ResponseBody):
    """The frozen pairs of a run by their digest: a gate that names it compares the same images for ever."""

    baseline: str
    """Id of the run that made the pairs."""
    kind: RunKind
    """Kind of that run."""
    suite: str
    """Name of the model suite that made them."""
    digest: BlobRef
    """SHA-256 of the pairs."""
    pairs: int = Field(ge=0)
    """Number of pairs of a source image and its counterfactual."""
    sources: int = Field(ge=0)
    """Number of independent source images."""
    changes: dict[str, int]
    """Number of independent source images of each change."""
    classifiers: list[str]
    """The classifiers of that run; a single one is the incumbent."""
    untested: list[UntestedClasses] | None = None
    """By change, the classes on fewer than 20 independent source images: no test can find a regression of
    theirs alone. Null in files of earlier versions."""

    def __str__(self) -> str:
        return f"{self.contents}{self.blind_spot and f'. {self.blind_spot}'}"

    @property
    def contents(self) -> str:
        """What it holds, without what it cannot test."""
        changes = ", ".join(f"{name} {number}" for name, number in self.changes.items())
        return f"{self.pairs} pairs of {self.sources} source images ({changes}), digest {self.digest}"

    @property
    def blind_spot(self) -> str:
        """How many classes have too few source images for a test, in one sentence; empty where none."""
        said = []
        for name, of in (
            ("cells of one class under one change", [each for each in self.untested or [] if each.change]),
            ("classes on the source images alone", [each for each in self.untested or [] if not each.change]),
        ):
            if number := sum(len(each.sources) for each in of):
                said.append(f"{number} of {sum(each.classes for each in of)} {name}")
        return f"Untested, on fewer than {LEAST_UNITS} source images: {' and '.join(said)}." if said else ""


class GateCreate(MappedClassifiers):
    """``POST /v1/gates``: whether candidates regress against the incumbent on the pairs of a run."""

    baseline: str = Field(min_length=1, max_length=64)
    """Id of the ended stress test or shift benchmark whose counterfactuals are the set."""
    digest: BlobRef | None = None
    """SHA-256 of the set when it was frozen: other pairs are refused. Null accepts any."""
    classifiers: Distinct[list[ClassifierSpec]] = Field(min_length=1, max_length=16)
    """The candidates."""
    incumbent: ClassifierSpec | None = None
    """The classifier that they are compared with; null for the only one of the baseline."""
    tolerance: float = Field(default=TOLERANCE, ge=0.0, le=1.0)
    """The regression that is allowed, as a fraction of the images."""
    seed: Seed
    """Seed of every random draw."""

    @model_validator(mode="after")
    def _each_function_is_compared(self) -> Self:
        if unknown := sorted(self.functions.keys() - {*self.classifiers, self.incumbent}):
            raise ValueError(f"the function {unknown[0]!r} is none of the classifiers")
        return self


class GateConfig(ResponseBody):
    """Everything that a gate depends on, fixed when its run is created."""

    request: GateCreate
    """The request that created the run."""
    regression_set: RegressionSet
    """The pairs that are classified."""
    incumbent: str
    """The classifier that the candidates are compared with."""
    suite: str
    """Name of the model suite."""
    versions: dict[str, str]
    """Versions of the software that planned the run, by package."""
    classes: list[str]
    """The classes among which the classifiers choose."""
    task: AnyTask = Field(default=CLASSIFICATION, exclude_if=is_classification)
    """What counts as right: the task of the baseline."""
    notes: list[str] = []
    """What the gate cannot show, however it comes out."""


class GateInstruction(ResponseBody):
    """The pair of an item, whose source image is the item's own."""

    image: ImageRef
    """SHA-256 of the counterfactual, or the recipe by which an operation makes it."""
    control: ImageRef | None = Field(default=None, exclude_if=lambda control: control is None)
    """Recipe of the source image at its working size, with which an operation is compared; null where it is
    compared with the source image itself."""
    change: str
    """What differs from the source image."""
    unit: str
    """The independent source image that the pair counts for."""


class GateResult(Provenance):
    """The answers to the two images of a pair."""

    predictions: dict[str, Scored] = {}
    """Predictions for the counterfactual, by classifier."""
    original_predictions: dict[str, Scored] = {}
    """Predictions for the source image, by classifier."""
    unanswered: dict[str, str] = {}
    """Why a classifier has no prediction for one of the images, by classifier."""


class GateItem(RunItem[GateResult]):
    """One pair of a gate."""

    instruction: GateInstruction | None = None
    """The pair; null only in damaged runs."""


class GateCell(ResponseBody):
    """One candidate under one change, or on the source images themselves; each source image weighs 1."""

    classifier: str
    """The candidate."""
    change: str | None
    """What differs from the source images, or null for the source images themselves."""
    label: str | None = None
    """The class that the cell is of, or null for all classes. Cells of single classes are tested too, and
    listed where they fail."""
    state: CellState
    """What the cell says."""
    regression: Estimate
    """The candidate's share of wrong answers less the incumbent's, with its 95 % interval; n counts source
    images. Of a failure point, the share of an operation's levels from the first wrong answer on."""
    p_adjusted: float | None
    """One-sided p of a regression above the tolerance, after Holm's correction over all tested cells; null
    where none was tested."""
    candidate: Estimate
    """The candidate's share of wrong answers."""
    incumbent: Estimate
    """The incumbent's share of wrong answers."""
    drop: Estimate | None
    """The candidate's drop of accuracy from the source images less the incumbent's, which is not judged; null
    for the source images themselves."""
    pairs: int
    """Number of planned pairs, or of planned source images."""
    left_out: int
    """How many of them have no answer of one of the two classifiers."""
    needed: int | None = None
    """About how many source images like these would tell, where the cell is inconclusive: that it passes or,
    where the regression itself lies above the tolerance, that it fails; null where it is the tolerance."""

    @property
    def name(self) -> str:
        """The change in words."""
        change = self.change or "source images"
        return change if self.label is None else f"{change}, {self.label}"

    @property
    def share_left_out(self) -> float:
        """The share of the planned pairs without an answer."""
        return self.left_out / self.pairs if self.pairs else 0.0


class GateExample(ResponseBody):
    """A pair on which the candidate errs after the change and the incumbent does not."""

    item: str
    """Id of its item."""
    classifier: str
    """The candidate."""
    change: str
    """What differs from the source image."""
    label: str
    """What both images show."""
    source: ImageRef
    """SHA-256 of the source image, or its recipe."""
    image: ImageRef
    """SHA-256 of the counterfactual, or its recipe."""
    candidate: str
    """The candidate's answer to the counterfactual."""
    incumbent: str
    """The incumbent's answer to the counterfactual."""


class GateSummary(RunSummary):
    """``GET /v1/runs/{id}/summary``."""

    kind: Literal["gate"] = "gate"
    """Kind of the run."""
    run_id: str
    """Id of the run."""
    config: GateConfig
    """Everything the gate depends on."""
    request_counts: RequestCounts
    """Number of items in each state."""
    outcome: GateOutcome | None
    """What the gate says, or null while the run goes on."""
    verdict: str
    """The outcome in one sentence."""
    cells: list[GateCell]
    """Each candidate under each change, candidate by candidate; then single classes that fail."""
    tested: int
    """Number of cells that were tested, those of single classes included: the family of the correction."""
    examples: list[GateExample] = []
    """Some pairs on which a candidate errs and the incumbent does not."""
    unanswered: dict[str, int] = {}
    """Pairs that a classifier could not answer, by classifier."""
    failed_codes: dict[str, int] = {}
    """Failed items, by error code."""
    cost: Cost
    """Cost of the run."""

    @model_validator(mode="after")
    def _says_what_its_cells_say(self) -> Self:
        # Checked when written and when read: an outcome beside other cells would pass a regression.
        if self.outcome not in (None, outcome_of(self.cells)):
            raise ValueError(f"the outcome {self.outcome!r} is not that of the cells")
        return self

    def __str__(self) -> str:
        return self.verdict


def outcome_of(cells: Sequence[GateCell]) -> GateOutcome:
    """Return what cells say together: the worst of them; inconclusive where no change was tested."""
    states = {cell.state for cell in cells}
    if "failed" in states:
        return "failed"
    if "error" in states:
        return "error"
    tested = {cell.state for cell in cells if cell.change is not None and cell.label is None} - {"skipped"}
    return "inconclusive" if not tested or "inconclusive" in states else "passed"
