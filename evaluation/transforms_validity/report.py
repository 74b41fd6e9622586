"""The result file of planted sensitivities to operations."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field

from counterpose_core.types import Estimate
from evaluation.validity.report import Aim

from .planted import Scope

FALSE_BELOW = 0.05
"""A finding is false if fresh scenes lose less by its words."""
PLANTED_FROM: dict[Scope, float] = {"whole": 0.3, "class": 0.5, "circumstance": 0.3}
"""True losses, where a sensitivity acts, from which on it counts as planted."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlantedReport(_Frozen):
    """One sensitivity, the true losses where it acts, and what runs said of it."""

    classifier: str
    operation: str
    from_level: int = Field(description="Level from which on it was taught.")
    scope: Scope
    object_class: str | None = None
    circumstance: tuple[str, str] | None = None
    by_level: dict[int, Estimate] = Field(
        description="True loss at each level of the operation, tested or not, on fresh scenes of its scope."
    )
    true: Estimate = Field(description="The largest of them at a level that runs test and that was taught.")
    planted: bool = Field(description="Whether that is large enough for its scope.")
    found: dict[int, bool] = Field(
        description="Whether a run of so many images calls it: the operation breaks, or breaks the class."
    )
    said_from: dict[int, int | None] = Field(
        description="Level from which on a run of so many images shows a loss, where it was found."
    )


class FindingReport(_Frozen):
    """A loss that a run shows, and what fresh scenes lose by its words."""

    classifier: str
    control: bool
    size: int
    operation: str
    level: int
    object_class: str = Field(description="The class it is about; empty for all.")
    loss: Estimate
    true: Estimate
    is_true: bool


class RunReport(_Frozen):
    """A run: one classifier, all operations at the suite's levels."""

    classifier: str
    control: bool
    image_set: int = Field(description="Number of its set of images, which a few classifiers share.")
    size: int
    accuracy: Estimate
    true_accuracy: float
    figures: int = Field(description="Operations that it tested.")
    class_tests: int = Field(description="Operations times classes with enough images.")
    findings: int
    false: int
    intervals: int = Field(description="Intervals of losses that it printed for all classes together.")
    covered: int = Field(description="Of these, those that hold the truth, which has an interval, too.")
    covered_plainly: int = Field(description="The same, taking the measured truth as exact.")


class TransformsFigures(_Frozen):
    """What the runs of one number of images show."""

    whole: Estimate = Field(description="Planted sensitivities of the whole model that are found.")
    of_class: Estimate = Field(description="Those of one class, found by a finding about the class.")
    circumstance: Estimate = Field(description="Those under one circumstance whose operation breaks.")
    precision: Estimate = Field(description="Findings that are true, by classifier.")
    precision_whole: Estimate
    precision_of_class: Estimate
    any_loss: Estimate = Field(
        description="Findings by whose words anything is lost, by its interval, be it below 5 points."
    )
    false_controls: Estimate = Field(description="Controls with a false finding.")
    groundless_controls: Estimate = Field(
        description="Controls with a finding by whose words nothing is shown to be lost."
    )
    false_tests: Estimate = Field(description="Tests of controls that give a false finding.")
    coverage: Estimate = Field(
        description="Printed intervals of losses that hold the truth, by set of images."
    )
    coverage_plain: Estimate


class LevelReport(_Frozen):
    """The level at which a run says that the stated loss is reached; None lies beyond the levels."""

    classifier: str
    operation: str
    draw: int = Field(description="Number of the set of images.")
    level: float | None
    low: float | None
    high: float | None
    true: float | None = Field(description="That of the losses on fresh scenes, by the product's own rule.")
    in_full: bool
    classifications: int
    of_grid: int


class FailurePoints(_Frozen):
    """What adaptive runs say of the level of a stated loss, of planted sensitivities of the whole model."""

    loss: float
    images: int
    near: Estimate = Field(description="Levels within half a level of the true one, by sensitivity.")
    held: Estimate = Field(description="Intervals of levels that hold the true one, by sensitivity.")
    asked: float = Field(description="Classifications at levels, of those that every level takes.")
    levels: list[LevelReport]


class TransformsValidity(_Frozen):
    """The result file; ``figures`` by the number of images of a run."""

    seed: int
    classifiers: int
    controls: int
    taught: int = Field(description="Sensitivities that were taught.")
    planned: int = Field(description="Runs that were planned; those of the file are done.")
    fresh: int = Field(description="Fresh scenes of each true loss.")
    note: str = Field(default="", description="What else is to be known of the runs.")
    aims: list[Aim]
    figures: dict[int, TransformsFigures]
    failure_points: FailurePoints | None = None
    planted: list[PlantedReport]
    findings: list[FindingReport] = Field(description="All but true ones of single classes, which are many.")
    runs: list[RunReport]
    cells: dict[str, dict[str, list[list[float]]]] = Field(
        description="True losses by classifier and operation: a row for each level, of all classes and then"
        " of each in the world's order."
    )

    def text(self) -> str:
        """Write the file, a row of numbers a line."""
        plain = self.model_dump_json(indent=1)
        return re.sub(r"\[[\s\d.,e-]+\]", lambda row: re.sub(r"\s+", " ", row[0]), plain) + "\n"
