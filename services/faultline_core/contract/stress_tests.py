"""Bodies of ``/v1/stress-tests``: LANCE as a service."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from faultline_core.contract.base import RequestBody, ResponseBody
from faultline_core.contract.editor import EditorPreset
from faultline_core.contract.interventions import Intervention
from faultline_core.contract.realism import PerplexitySummary, RealismSummary
from faultline_core.types import EDIT_TYPES, ClassifierSpec, Cost, EditType, Estimate, Name, Seed, Selection

SourceName = Annotated[str, Field(min_length=1, max_length=1024)]
"""A source's id, its file name, or its class and file name with a slash between."""

RefusedWord = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^\w+([-']\w+)*$")]
"""One word; a phrase would never equal a word of a caption."""


class StressTestCreate(RequestBody):
    """``POST /v1/stress-tests``: which dataset, which classifiers, which changes.

    ``max_edits_per_image`` is split evenly over ``edit_types``; ``preset`` names a preset of the
    suite; ``limit`` takes the first so many sources, spread evenly over the classes. ``refused_words``
    joins the list of subjective words that no edit may bring in; ``exclude`` names sources, by id or
    file name, that nothing shall be made from.
    ``lance_r_edits_per_image`` edits of the random baseline LANCE-R go beside each source's edits and
    change none of them; 0 leaves it out. Each of the ``interventions``, changes of words that the user
    chose, is made in every caption that it applies to, with ``max_edits_per_image`` 0 alone.
    ``selection`` is the choice over the preset's sweep of self_replace: ``paper`` takes the best direction
    of all values that pass the gate, ``released`` the largest value that passes, as LANCE's code does;
    smaller values are not made then, which saves most of the editor's work.
    """

    dataset: Name
    classifiers: list[ClassifierSpec] = Field(min_length=1, max_length=64)
    edit_types: list[EditType] = Field(default=list(EDIT_TYPES), min_length=1, max_length=5)
    interventions: list[Intervention] = Field(default=[], max_length=16)
    max_edits_per_image: int = Field(default=5, ge=0, le=50)
    lance_r_edits_per_image: int = Field(default=1, ge=0, le=16)
    preset: Name = "quick"
    selection: Selection = "paper"
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    refused_words: list[RefusedWord] = Field(default=[], max_length=1000)
    exclude: list[SourceName] = Field(default=[], max_length=10_000)
    seed: Seed

    @field_validator("classifiers", "edit_types")
    @classmethod
    def _distinct(cls, values: list[str]) -> list[str]:
        if len(set(values)) != len(values):
            raise ValueError("values must be distinct")
        return values

    @field_validator("interventions")
    @classmethod
    def _each_once(cls, values: list[Intervention]) -> list[Intervention]:
        if len({each.key for each in values}) != len(values):
            raise ValueError("values must be distinct")
        return values

    @field_validator("max_edits_per_image")
    @classmethod
    def _edits_something(cls, number: int, info: ValidationInfo) -> int:
        # Interventions that are wrong themselves are missing here, and have an error of their own.
        if number == 0 and info.data.get("interventions") == []:
            raise ValueError("without interventions it is 1 at least")
        return number

    @property
    def tested_types(self) -> list[EditType]:
        """The edit types that edits are planned of."""
        return list(self.edit_types) if self.max_edits_per_image else []


class GateThresholds(RequestBody):
    """The picture gate: keep an edit when each cosine reaches its threshold (LANCE: 0.2, 0.7, 0.2)."""

    direction: float = Field(default=0.2, ge=-1.0, le=1.0)
    image_image: float = Field(default=0.7, ge=-1.0, le=1.0)
    image_text: float = Field(default=0.2, ge=-1.0, le=1.0)
    closer: bool = True


class TextThresholds(RequestBody):
    """The text filters: drop an edit whose words are nearer than epsilon to the class or to each other."""

    class_similarity: float = Field(default=0.5, ge=-1.0, le=1.0)
    word_similarity: float = Field(default=0.5, ge=-1.0, le=1.0)


class StressTestConfig(ResponseBody):
    """All that a stress test depends on, stored with the run and never re-derived.

    ``excluded`` are the ids of the sources left out by name; ``objectionable`` is the cosine from which a
    generated picture is refused for looking like something objectionable, None where nobody looks.
    """

    request: StressTestCreate
    suite: str
    preset: EditorPreset
    gate: GateThresholds
    text: TextThresholds
    models: dict[str, str]
    versions: dict[str, str]
    dataset_digest: str
    classes: list[str]
    excluded: list[str] = []
    objectionable: float | None = None


CellStatus = Literal["insufficient", "not-shown", "significant"]
"""What a test allows to say: nothing (too few sources, or no placebo), no drop shown, a drop shown."""


class Tested(ResponseBody):
    """The hypothesis "p(true class) falls by more than the controls cost", and what became of it.

    ``beyond_controls`` is reconstruction less counterfactual less the class's placebo effect; ``p`` its
    one-sided p-value by flipping signs of sources, None without any placebo; ``p_adjusted`` the same
    corrected over the ``family_size`` hypotheses of ``family``, to which cells that are
    ``insufficient`` do not belong. ``detectable_drop`` is the drop that would be found with 80 % power
    at the family's level, None where none could. Without a status, nothing was tested.
    """

    status: CellStatus | None = None
    significant: bool = False
    beyond_controls: Estimate | None = None
    p: float | None = None
    p_adjusted: float | None = None
    family: str = ""
    family_size: int = 0
    detectable_drop: float | None = None


class AccuracyRow(ResponseBody):
    """Accuracy on one set of pictures, each source weighing 1."""

    acc1: Estimate
    acc5: Estimate
    n_images: int
    n_sources: int = 0


class ModelSummary(ResponseBody):
    """How one classifier fared; original, reconstruction and counterfactual cover exactly the same sources.

    ``placebo`` covers those of them whose placebo was kept, ``lance_r`` those of which an edit of the
    random baseline was kept, with ``drop_lance_r`` paired over these. ``controls`` holds the change for
    ``reconstruction`` and ``placebo``, which change no attribute, and for ``lance-r`` over all that was
    kept of it; ``overall`` the same for all edits together.
    ``drop`` and ``drop_at_5`` are original less counterfactual, paired by source;
    ``drop_paper`` and ``drop_paper_at_5`` are LANCE's eq. 3 with its sign turned: every picture weighs
    1, and originals without a kept edit count. ``changed_by_reconstruction`` is the share of sources
    whose answer changes when nothing was edited.
    ``beyond_control`` is acc@1 of the reconstruction less that of the counterfactual, paired by source;
    ``p`` its one-sided sign-flip p-value, ``p_adjusted`` the same after Holm's correction over the
    ``family_size`` models.
    """

    original: AccuracyRow
    reconstruction: AccuracyRow
    counterfactual: AccuracyRow
    drop: Estimate
    edit_types: dict[str, EditTypeSummary]
    controls: dict[str, EditTypeSummary] = {}
    beyond_control: Estimate | None = None
    p: float | None = None
    p_adjusted: float | None = None
    placebo: AccuracyRow | None = None
    overall: EditTypeSummary | None = None
    drop_at_5: Estimate | None = None
    drop_paper: Estimate | None = None
    drop_paper_at_5: Estimate | None = None
    changed_by_reconstruction: Estimate | None = None
    lance_r: AccuracyRow | None = None
    drop_lance_r: Estimate | None = None
    family: str = ""
    family_size: int = 0


class EditTypeSummary(Tested):
    """Sensitivity to one edit type: mean change of p(true class), counterfactual less original.

    Each source weighs 1. The test is of p(true class), too; ``drop`` is of acc@1.
    """

    delta_p: Estimate
    abs_delta_p: Estimate
    drop: Estimate
    n_images: int
    n_sources: int = 0


class InterventionSummary(ResponseBody):
    """What one intervention did, by classifier; it enters no figure but these.

    Of ``planned`` items, one a source, the caption of some has nothing to replace (``not-applicable``) or
    the filters stop them; ``yield`` is the share of decided ones that were kept. ``classes`` holds the
    change of p(true class) by class and classifier (LANCE, fig. 9), ``sentences`` what the tests allow to
    say. ``example_item`` is the kept item that costs a classifier most, empty where none was kept.
    """

    removed: str
    added: str
    planned: int
    kept: int
    not_applicable: int
    yields: Estimate = Field(alias="yield", serialization_alias="yield")
    models: dict[str, EditTypeSummary]
    classes: dict[str, dict[str, Estimate]]
    sentences: list[str]
    example_item: str = ""


class Insight(Tested):
    """A change that moves a classifier on one class, in words, with its effect and an example item.

    It is a finding when ``significant``, which takes a drop of 0.05 beyond the controls however sure a
    smaller one is; otherwise it is a hint to follow up. Where ``cluster_size``, the number of distinct
    changes of words, is above 1, it is about a cluster of like changes: ``removed`` and ``added`` are the
    words of the one nearest to its centre, and ``cluster_items`` the ids of all its edits.
    """

    classifier: str
    object_class: str
    edit_type: str
    removed: str
    added: str
    delta_p: Estimate
    example_item: str
    sentence: str
    n_sources: int = 0
    n_images: int = 0
    cluster_size: int = 1
    cluster_items: list[str] = []


class FailureMode(ResponseBody):
    """How many kept edits look like one of LANCE's failure modes (appendix E), by a stated rule."""

    count: int
    share: Estimate
    rule: str
    example_items: list[str] = []


class ClassFigures(ResponseBody):
    """One classifier on one class: acc@1 of the same sources before and after, and change of p(true class).

    Each source weighs 1; ``n_images`` counts the kept edits of these ``n_sources`` sources.
    """

    original: Estimate
    counterfactual: Estimate
    delta_p: Estimate
    n_images: int
    n_sources: int


class ClassSummary(ResponseBody):
    """Yield and accuracy of one class (LANCE, figures 7 and 8).

    ``yield`` is the share of decided edits that were kept; ``example_item`` the kept edit that costs a
    classifier most, empty where none was kept.
    """

    planned: int
    kept: int
    yields: Estimate = Field(alias="yield", serialization_alias="yield")
    models: dict[str, ClassFigures]
    example_item: str = ""


class SweepSummary(ResponseBody):
    """The choice over self_replace: its rule, and how many pictures it took of those it could have taken.

    ``made`` pictures for ``edits`` edits that reached the gate, each at ``values`` values at most; edits
    that failed count nowhere.
    """

    selection: Selection
    values: int
    edits: int
    made: int


class StressTestSummary(ResponseBody):
    """``GET /v1/stress-tests/{id}/summary`` and ``demo/summary.json``.

    ``counts`` and ``dropped`` count items; ``excluded_sources`` were left out by name and have none.
    """

    run_id: str
    dataset: str
    seed: int
    verdict: str
    models: dict[str, ModelSummary]
    edit_types: dict[str, EditTypeSummary]
    insights: list[Insight]
    counts: dict[str, int]
    yields: dict[str, Estimate] = Field(alias="yield", serialization_alias="yield")
    dropped: dict[str, int]
    failed_codes: dict[str, int] = {}
    cost: Cost
    service_seconds: dict[str, float]
    wall_s: float
    config: dict[str, Any]
    failure_modes: dict[str, FailureMode] = {}
    excluded_sources: int = 0
    interventions: list[InterventionSummary] = []
    classes: dict[str, ClassSummary] = {}
    realism: RealismSummary | None = None
    perplexity: PerplexitySummary | None = None
    sweep: SweepSummary | None = None

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        hints = (insight.sentence for insight in self.insights[:10])
        paid = [f"items: {counts}", f"cost: {self.cost}"]
        return "\n".join([self.verdict, "", *self._accuracy(), *paid, *hints])

    def _accuracy(self) -> list[str]:
        """A line a classifier; a run of the user's own edits alone has none."""
        if self.interventions and not self.edit_types:
            return []
        lines = [f"{'classifier':24} {'original':>28} {'reconstruction':>28} {'counterfactual':>28}"]
        for name, model in self.models.items():
            rows = (model.original.acc1, model.reconstruction.acc1, model.counterfactual.acc1)
            lines.append(f"{name:24} " + " ".join(f"{row!s:>28}" for row in rows))
        return [*lines, ""]


ModelSummary.model_rebuild()
