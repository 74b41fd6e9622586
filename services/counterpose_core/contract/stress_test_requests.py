"""The request of a stress test."""

from typing import Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from counterpose_core.contract.backend_preset import Fraction
from counterpose_core.contract.base import DISTINCT, Distinct
from counterpose_core.contract.classifiers import FunctionsAsWritten
from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.judges import CLIP_ALONE, Rule, is_clip_alone
from counterpose_core.contract.preservation import FAULTS, Fault, PreservationOf
from counterpose_core.contract.regions import RegionOfEdits
from counterpose_core.contract.spending import SpendsWithin
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.contract.suite_fit import OutsideSuite
from counterpose_core.contract.tasks import ModelsOfTask
from counterpose_core.contract.transforms import TransformChoice
from counterpose_core.types import (
    EDIT_TYPES,
    ClassifierSpec,
    Cosine,
    EditType,
    JudgeName,
    Name,
    RefusedWord,
    Seed,
    Selection,
    SourceName,
)


class StressTestCreate(SpendsWithin, ModelsOfTask, FunctionsAsWritten):
    """``POST /v1/stress-tests``: a dataset, the classifiers to test and the changes to make."""

    dataset: Name
    """Name of the dataset."""
    classifiers: Distinct[list[ClassifierSpec]] = Field(min_length=1, max_length=64)
    """The classifiers to test."""
    edit_types: Distinct[list[EditType]] = Field(default=list(EDIT_TYPES), min_length=1, max_length=5)
    """Factors to change; `max_edits_per_image` is divided evenly among them."""
    interventions: list[Intervention] = Field(default=[], max_length=16, json_schema_extra=DISTINCT)
    """Changes of words of your own, each made in every caption that it applies to."""
    transforms: TransformChoice | None = Field(
        default=None,
        # A run of captions is stored as it was without this field.
        exclude_if=lambda choice: choice is None,
    )
    """Operations to carry out on every image, beside the edits of its caption that the request has; null for
    none, or for those of a suite that has nothing else."""
    max_edits_per_image: int = Field(default=5, ge=0, le=50)
    """Number of edits of each source image; 0 makes only the interventions."""
    lance_r_edits_per_image: int = Field(default=1, ge=0, le=16)
    """Number of additional edits of each source image by the random baseline LANCE-R; 0 for none."""
    preset: Name | None = None
    """Name of one of the suite's editor presets. If it is omitted, the suite's default is used, and the
    stored request names it."""
    selection: Selection = "paper"
    """How to choose from the strength sweep: `paper` makes all values and takes the one with the best
    direction among those that pass the gate; `released` takes the largest value that passes and makes no
    smaller ones, which saves most of the editor's work."""
    strength: Distinct[list[Fraction] | None] = Field(default=None, min_length=1, max_length=16)
    """Strengths to sweep, in [0, 1]; null for the preset's. For prompt-to-prompt: shares of the steps that
    copy self-attention; larger ones keep more of the image (LANCE: 0.4 to 0.9 by 0.1)."""
    thresholds: Thresholds = Thresholds()
    """Thresholds of the text filters and the image gate, each null for the suite's, which are calibrated for
    its models. The run's configuration records those in force."""
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    """Maximum number of source images, taken in order and evenly over the classes; null for all."""
    refused_words: list[RefusedWord] = Field(default=[], max_length=1000)
    """Words that no edit may add, in addition to the built-in list of subjective words."""
    exclude: list[SourceName] = Field(default=[], max_length=10_000)
    """Images to leave out, by id, by file name, or by class and file name separated by a slash."""
    confirm: bool = True
    """Whether to screen a part of the source images and to test on the others what seemed to hurt. Where too
    few images are left for a test, all are screened and nothing is confirmed."""
    confirm_share: float = Field(default=0.65, ge=1e-6, lt=1.0)
    """Share of each class's source images that are kept for confirmation."""
    near_duplicates: Cosine | None = Field(default=None, gt=0.0)
    """Lowest cosine between the CLIP features of two images of a class that are taken for one group, as if
    the dataset named it; null to group only what the dataset names and equal images."""
    outside_suite: OutsideSuite = "stop"
    """What to do if most of the first images lie outside what the suite's models were trained on, so that no
    edit of them can be trusted: `stop` the run after these, or `continue`."""
    preservation: PreservationOf = Field(
        default="served",
        # A run of before is stored as it was without this field.
        exclude_if=lambda whose: whose == "served",
    )
    """Of which edits and controls it is measured whether only the asked change changed: of those that a
    server of others makes and of runs with a `region` (`served`), of `all`, or of `none`. It takes a tenth of
    a second for each image."""
    refused_faults: Distinct[list[Fault]] = Field(
        default=[], max_length=len(FAULTS), exclude_if=lambda faults: not faults
    )
    """Faults for which an edit or a placebo is dropped, so that no figure has it. Then every image is
    measured, and fails if the scorer does; one of which a fault cannot be told, such as a movement where
    nothing has an edge, is kept. `drifted` and `leaked` are told of edits with a `region` alone."""
    region: RegionOfEdits | None = Field(default=None, exclude_if=lambda region: region is None)
    """Where edits may change an image, while the rest is kept: its `object`, its `background`, the inside of
    the `mask` that the dataset has for it, or where the editor looks for the changed `words`; null for
    that of the preset, else everywhere. Object and background are told apart by the dataset's masks, else by
    the suite's segmenter."""
    judges: Distinct[list[JudgeName]] = Field(
        default=CLIP_ALONE, min_length=1, max_length=3, exclude_if=is_clip_alone
    )
    """Who says whether an edit or a placebo is right: `clip` is the image gate, `encoder` compares features
    of a second network with those of the classes, and `judge` is a model that chats about images, asked
    closed questions. All must say yes, or as many as the threshold `keep` says."""
    applied_from: str | None = Field(default=None, min_length=1, max_length=64)
    """Id of the stress test one of whose changes the interventions repeat; the run is listed under it. Null
    for none."""
    seed: Seed
    """Seed of every random draw."""

    @field_validator("interventions")
    @classmethod
    def _each_once(cls, values: list[Intervention]) -> list[Intervention]:
        seen: set[object] = set()
        for each in values:
            if each.key in seen:
                raise ValueError(f"the intervention {each.in_words()!r} is listed twice; list it once")
            seen.add(each.key)
        return values

    @field_validator("max_edits_per_image")
    @classmethod
    def _edits_something(cls, number: int, info: ValidationInfo) -> int:
        # Invalid interventions are missing here; they have their own errors.
        if number == 0 and info.data.get("interventions") == [] and not info.data.get("transforms"):
            raise ValueError("max_edits_per_image must be at least 1 without interventions")
        return number

    @model_validator(mode="after")
    def _can_be_kept(self) -> Self:
        assert self.rule
        return self

    @property
    def rule(self) -> Rule:
        """The rule by which judges keep an edit."""
        return Rule.of(self.judges, self.thresholds.keep, self.thresholds.without)

    @property
    def edits_captions(self) -> bool:
        """Whether any image is edited by its caption."""
        return bool(self.max_edits_per_image or self.lance_r_edits_per_image or self.interventions)

    @property
    def tested_types(self) -> list[EditType]:
        """The edit types for which edits are planned."""
        return list(self.edit_types) if self.max_edits_per_image else []
