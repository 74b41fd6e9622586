"""Bodies of ``/v1/stress-tests``: LANCE as a service."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from faultline_core.contract.base import RequestBody, ResponseBody
from faultline_core.contract.editor import EditorPreset
from faultline_core.types import EDIT_TYPES, ClassifierSpec, Cost, EditType, Estimate, Name, Seed, Selection


class StressTestCreate(RequestBody):
    """``POST /v1/stress-tests``: which dataset, which classifiers, which changes.

    ``max_edits_per_image`` is split evenly over ``edit_types``; ``preset`` names a preset of the
    suite; ``limit`` takes the first so many sources, spread evenly over the classes.
    """

    dataset: Name
    classifiers: list[ClassifierSpec] = Field(min_length=1, max_length=64)
    edit_types: list[EditType] = Field(default=list(EDIT_TYPES), min_length=1, max_length=5)
    max_edits_per_image: int = Field(default=5, ge=1, le=50)
    preset: Name = "quick"
    selection: Selection = "paper"
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    seed: Seed

    @field_validator("classifiers", "edit_types")
    @classmethod
    def _distinct(cls, values: list[str]) -> list[str]:
        if len(set(values)) != len(values):
            raise ValueError("values must be distinct")
        return values


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
    """All that a stress test depends on, stored with the run and never re-derived."""

    request: StressTestCreate
    suite: str
    preset: EditorPreset
    gate: GateThresholds
    text: TextThresholds
    models: dict[str, str]
    versions: dict[str, str]
    dataset_digest: str
    classes: list[str]


class AccuracyRow(ResponseBody):
    """Accuracy on one set of pictures, each source weighing 1."""

    acc1: Estimate
    acc5: Estimate
    n_images: int


class ModelSummary(ResponseBody):
    """How one classifier fared; the three rows cover exactly the same sources.

    ``controls`` holds the same figures for ``reconstruction`` and ``placebo``, which change no attribute.
    ``beyond_control`` is acc@1 of the reconstruction less that of the counterfactual, paired by source;
    ``p`` its one-sided sign-flip p-value, ``p_adjusted`` the same after Holm's correction over the models.
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


class EditTypeSummary(ResponseBody):
    """Sensitivity to one edit type: mean change of p(true class), counterfactual less original."""

    delta_p: Estimate
    abs_delta_p: Estimate
    drop: Estimate
    n_images: int


class Insight(ResponseBody):
    """A change that moves a classifier on one class, in words, with its effect and an example item."""

    classifier: str
    object_class: str
    edit_type: str
    removed: str
    added: str
    delta_p: Estimate
    example_item: str
    sentence: str


class StressTestSummary(ResponseBody):
    """``GET /v1/stress-tests/{id}/summary`` and ``demo/summary.json``."""

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

    def __str__(self) -> str:
        lines = [
            self.verdict,
            "",
            f"{'classifier':24} {'original':>28} {'reconstruction':>28} {'counterfactual':>28}",
        ]
        for name, model in self.models.items():
            rows = (model.original.acc1, model.reconstruction.acc1, model.counterfactual.acc1)
            lines.append(f"{name:24} " + " ".join(f"{row!s:>28}" for row in rows))
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        return "\n".join(
            [*lines, "", f"items: {counts}", *(insight.sentence for insight in self.insights[:10])]
        )


ModelSummary.model_rebuild()
