"""Bodies of ``/v1/stress-tests``: LANCE as a service."""

from typing import Any, Literal

from pydantic import Field

from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.baselines import ClassifierBaseline
from counterpose_core.contract.confirmation import ConfirmationPlan, ConfirmationSummary
from counterpose_core.contract.editor_backends import CAPABILITIES, Capabilities
from counterpose_core.contract.editor_presets import UNTAGGED, EditorPreset
from counterpose_core.contract.findings import ClassifierVerdict, Finding
from counterpose_core.contract.groups import Grouping, GroupingSummary
from counterpose_core.contract.judges import Calibration, JudgesSummary
from counterpose_core.contract.preservation import PreservationSummary
from counterpose_core.contract.proofs import OperationProof, Proof
from counterpose_core.contract.realism import PerplexitySummary, RealismSummary
from counterpose_core.contract.regions import OF_MASKS
from counterpose_core.contract.runs import RunSummary
from counterpose_core.contract.stress_test_figures import (
    ClassSummary,
    EditTypeSummary,
    FailureMode,
    Insight,
    InterventionSummary,
    ModelSummary,
    SweepSummary,
    Unanswered,
)
from counterpose_core.contract.stress_test_requests import StressTestCreate
from counterpose_core.contract.stress_test_thresholds import (
    GateThresholds,
    JudgedAgain,
    TextThresholds,
    Thresholds,
)
from counterpose_core.contract.suite_fit import KnownImages, SuiteFitSummary
from counterpose_core.contract.tasks import CLASSIFICATION_FIGURES, TaskFigures
from counterpose_core.contract.transforms import TransformPlan, TransformSummary
from counterpose_core.errors import InternalError
from counterpose_core.types import BlobRef, Cost, Estimate

__all__ = [
    "ClassSummary",
    "EditTypeSummary",
    "FailureMode",
    "GateThresholds",
    "Insight",
    "InterventionSummary",
    "ModelSummary",
    "StressTestConfig",
    "StressTestCreate",
    "StressTestSummary",
    "SweepSummary",
    "TextThresholds",
    "Thresholds",
    "Unanswered",
]


class StressTestConfig(ResponseBody):
    """Everything a stress test depends on, fixed when its run is created."""

    request: StressTestCreate
    """The request that created the run."""
    suite: str
    """Name of the model suite."""
    preset: EditorPreset | None
    """Settings of the editor, or null where no image is edited by its caption."""
    transforms: TransformPlan | None = Field(default=None, exclude_if=lambda plan: plan is None)
    """The operations that are carried out on every image, or null for none."""
    gate: GateThresholds
    """Thresholds of the image gate."""
    text: TextThresholds
    """Thresholds of the text filters."""
    models: dict[str, str]
    """Name of each service's model."""
    versions: dict[str, str]
    """Versions of the software that planned the run, by package."""
    dataset_digest: str
    """Digest of the dataset when the run was created."""
    classes: list[str]
    """All classes of the dataset, among which the classifiers choose."""
    labelled: int = Field(default=0, exclude_if=lambda number: not number)
    """Number of source images that have further labels; absent if none has."""
    excluded: list[str] = []
    """Ids of the images that were left out by name."""
    objectionable: float | None = None
    """CLIP cosine from which a generated image is dropped as objectionable, or null where nothing is
    checked."""
    redraw: EditorPreset | None = None
    """Settings of the editor for several draws of one source image, or null where the suite has none: they
    draw the noise from a seed."""
    confirmation: ConfirmationPlan | None = None
    """How the source images are divided, or null where the request does not confirm."""
    grouping: Grouping | None = None
    """The source images that are not independent, or null if all are."""
    notes: list[str] = []
    """What the run cannot show, however it comes out, such as for want of images."""
    baseline: list[ClassifierBaseline] = []
    """What each classifier answered to the first images when the run was created; without those that could
    not be called then."""
    policy_words: list[str] = []
    """Words and phrases that the operator's content policy refuses in edits."""
    known_images: KnownImages | None = None
    """What the suite's own images measure at least, or null where it was not calibrated."""
    proof: Proof | None = None
    """The finding of another run that this run is to prove, or null where it searches itself."""
    operation_proof: OperationProof | None = Field(default=None, exclude_if=lambda proof: proof is None)
    """The operation of another run that this run is to prove, or null for none."""

    references: dict[str, list[BlobRef]] = Field(default={}, exclude_if=lambda images: not images)
    """Source images that stand for each class, where the judge `encoder` is asked."""
    calibrations: dict[str, Calibration] = Field(default={}, exclude_if=lambda counts: not counts)
    """How each judge agreed with people or an oracle, by the suite; without those that are not calibrated."""
    judged_by: dict[str, str] = Field(default={}, exclude_if=lambda models: not models)
    """The model of each judge beside CLIP that is asked, with the host of one by address."""

    @property
    def measures_preservation(self) -> bool:
        """Whether it is measured what edits change beside what was asked for."""
        wanted = self.request.preservation
        if self.request.refused_faults or wanted == "all":
            return True
        return wanted == "served" and (self.editing.calls_server or self.request.region in OF_MASKS)

    @property
    def groups(self) -> dict[str, str]:
        """The group of each source image that is not independent."""
        return {} if self.grouping is None else self.grouping.groups

    @property
    def edits_captions(self) -> bool:
        """Whether any image is edited by its caption; of operations alone there is no preset."""
        return self.preset is not None

    @property
    def editing(self) -> EditorPreset:
        """The editor's settings; raises InternalError where no image is edited by its caption."""
        if self.preset is None:
            raise InternalError("a run of operations has no settings of an editor")
        return self.preset


class StressTestSummary(RunSummary):
    """``GET /v1/runs/{run_id}/summary`` and ``demo/summary.json``: the figures as the run stands.

    Every figure is of the run's first stage, the screen, except the findings with their tests and what
    counts or costs the whole run.
    """

    kind: Literal["stress-test"] = "stress-test"
    """Kind of the run."""
    run_id: str
    """Id of the run."""
    dataset: str
    """Name of the dataset."""
    seed: int
    """Seed of the stress test."""
    verdict: str
    """The result of the stress test in words."""
    verdicts: list[ClassifierVerdict] = []
    """What the run shows about each classifier, worst first."""
    findings: list[Finding] = []
    """Changes that make a classifier answer wrongly, the most certain first; empty for a run of one stage,
    whose insights take their place."""
    pairs_left: dict[int, int] = {}
    """Number of pairs that a proof of each open finding could make at most, by the finding's number, of
    images that the dataset has left, or else drawn again; with 0 `prove` is refused."""
    least_pairs: dict[int, int] = {}
    """Number of further pairs that a proof takes at least to decide each finding."""
    hopeless: list[int] = []
    """Numbers of the open findings that a proof on what is left decides in 0 % of simulated futures."""
    confirmation: ConfirmationSummary | None = None
    """What the stages after the screen did, or null if the request does not confirm."""
    baseline: list[ClassifierBaseline] = []
    """What each classifier answered to the first images as they are, at the run's creation."""
    task: TaskFigures = Field(
        default=CLASSIFICATION_FIGURES, exclude_if=lambda of: of == CLASSIFICATION_FIGURES
    )
    """What the figures are called; absent where the models classify."""
    models: dict[str, ModelSummary]
    """Results of each classifier in the screen."""
    edit_types: dict[str, EditTypeSummary]
    """Sensitivity by edit type in the screen, averaged over classifiers."""
    insights: list[Insight]
    """Changes that move a classifier on one class in the screen, largest fall first."""
    counts: dict[str, int]
    """Number of items of all stages, planned and in each state."""
    yields: dict[str, Estimate] = Field(alias="yield", serialization_alias="yield")
    """Share of the screen's edits that pass each filter, and share of them that were kept, in total (`kept`)
    and by type (`kept.<type>`)."""
    dropped: dict[str, int]
    """Number of dropped items of all stages, by reason."""
    failed_codes: dict[str, int] = {}
    """Number of failed items of all stages, by error code."""
    unknown_kinds: dict[str, int] = Field(default={}, exclude_if=lambda kinds: not kinds)
    """Number of items of kinds that only another version knows, by kind: no figure has them."""
    cost: Cost
    """Total cost of the items of all stages."""
    service_seconds: dict[str, float]
    """Seconds spent in each service."""
    wall_s: float
    """Seconds from the start to the end of the run; 0 while it has not ended."""
    config: dict[str, Any]
    """Everything the stress test depends on, as stored with the run."""
    failure_modes: dict[str, FailureMode] = {}
    """LANCE's failure modes among the screen's edits, by name."""
    excluded_sources: int = 0
    """Number of images that were left out by name; they have no items."""
    grouping: GroupingSummary | None = None
    """How many source images share a group, or null if all are independent. A group is one unit: n counts
    groups wherever it counts source images."""
    interventions: list[InterventionSummary] = []
    """What each intervention did to the screened images."""
    classes: dict[str, ClassSummary] = {}
    """Yield and accuracy by class in the screen."""
    realism: RealismSummary | None = None
    """How realistic the screen's images are, or null if no features were recorded."""
    perplexity: PerplexitySummary | None = None
    """How natural the screen's captions are, or null if no likelihoods were recorded."""
    preservation: PreservationSummary | None = Field(default=None, exclude_if=lambda rows: rows is None)
    """Whether only the asked change changed in the screen's images; absent where that was not measured."""
    unrepeated_seeds: int = Field(default=0, exclude_if=lambda number: number == 0)
    """Number of the screen's controls of a server that made another image for the same seed, although the
    suite says that it repeats an image by it."""
    judges: JudgesSummary | None = Field(default=None, exclude_if=lambda judges: judges is None)
    """What each judge said of the screen's edits; absent where CLIP alone was asked."""
    sweep: SweepSummary | None = None
    """How the strength sweep was chosen from, or null if there was no sweep."""
    suite_fit: SuiteFitSummary | None = None
    """How many of the screen's images lie outside what the suite knows, or null where that is not
    measured."""
    judged_again: JudgedAgain | None = None
    """How these figures differ from the run's own, or null if the reader gave no thresholds."""

    transforms: TransformSummary | None = None
    """What operations on the images cost, or null where none were carried out."""
    unanswered: list[Unanswered] = []
    """The classifiers that failed on images, the most often first."""

    @property
    def control_name(self) -> str:
        """What an image with nothing changed is called: not every editor makes it by a reconstruction."""
        preset = self.config.get("preset")
        if preset is None or CAPABILITIES.get(preset.get("backend", UNTAGGED), Capabilities()).reconstruct:
            return "reconstruction"
        return "unchanged edit"

    @property
    def warnings(self) -> list[str]:
        """What must be known before any figure: images outside the suite, and thresholds of another kind."""
        outside = self.suite_fit if self.suite_fit is not None and self.suite_fit.is_outside else None
        unknown = [
            f"{number} items are of the kind {kind!r}, which this version does not know: no figure has them; "
            "update it"
            for kind, number in self.unknown_kinds.items()
        ]
        if self.unrepeated_seeds:
            unknown.append(
                "the server made another image for the same seed, as at least one control tells: no seed "
                "repeats an image of this run; set seeded = false in the suite"
            )
        return [*unknown, *(str(note) for note in (outside, self.judged_again) if note is not None)]

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        # What was tested is told by the verdict; the screen's hints would take it back.
        hints = () if self.findings else (insight.sentence for insight in self.insights[:10])
        paid = [*map(str, self.unanswered), f"items: {counts}", f"cost: {self.cost}", *self.spending_lines]
        grouped = [] if self.grouping is None else [f"not independent: {self.grouping}"]
        warnings = [line for warning in self.warnings for line in (warning, "")]
        as_they_are = [*map(str, self.baseline), ""] if self.baseline else []
        paragraphs = [*warnings, *as_they_are, self.verdict, "", *self._accuracy(), *self.operation_lines]
        parts = (self.preservation, self.judges)
        told = [line for part in parts if part is not None for line in part.lines]
        return "\n".join([*paragraphs, *grouped, *told, *paid, *hints])

    @property
    def operation_lines(self) -> list[str]:
        """What operations cost, line by line, and an empty line; nothing without operations."""
        return [] if self.transforms is None else [*self.transforms.lines, ""]

    @property
    def has_accuracy(self) -> bool:
        """Whether there is an accuracy over all edits; a run of own interventions or operations has none."""
        return bool(self.edit_types or not (self.interventions or self.transforms))

    def _accuracy(self) -> list[str]:
        """Return one line per classifier; a run that has only interventions or operations has none."""
        if not self.has_accuracy:
            return []
        lines = [f"{'classifier':24} {'images':16} accuracy"]
        for name, model in self.models.items():
            images = {
                "original": model.original,
                self.control_name: model.reconstruction,
                "counterfactual": model.counterfactual,
            }
            # The name once, on a line of its own where it is an address: a terminal has 80 columns.
            lines += [name] if len(name) > 24 else []
            names = ("" if len(name) > 24 else name, "", "")
            lines += [
                f"{left:24} {of:16} {row.rate}" for left, (of, row) in zip(names, images.items(), strict=True)
            ]
        return [*lines, ""]
