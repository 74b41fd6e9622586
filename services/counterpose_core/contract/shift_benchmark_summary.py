"""The body of ``GET /v1/runs/{id}/summary``: the accuracy that each shift costs each model."""

from typing import Literal, Self

from pydantic import Field, model_validator

from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.classifiers import ClassifierDescription, ClassifierTrait
from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.runs import RunSummary
from counterpose_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from counterpose_core.contract.shift_thresholds import ThresholdInForce
from counterpose_core.types import BlobRef, Cost, Estimate


class ImageCounts(ResponseBody):
    """The planned images of a condition, by outcome."""

    planned: int
    """Number of planned images; always the sum of the other counts."""
    kept: int = 0
    """Images that passed every threshold."""
    without_object: int = 0
    """Images that failed the object threshold alone."""
    without_shift: int = 0
    """Images that failed the shift threshold alone."""
    without_both: int = 0
    """Images that failed both thresholds."""
    objectionable: int = 0
    """Images dropped because they look objectionable."""
    policy: int = 0
    """Images whose prompt the content policy refuses, or the safety checker flags."""
    not_found: int = 0
    """Images that the search did not find."""
    failed: int = 0
    """Images that failed."""
    unmade: int = 0
    """Images that are pending or cancelled."""

    @property
    def made(self) -> int:
        """Number of images that exist, kept or not."""
        return self.kept + self.without_object + self.without_shift + self.without_both

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        # A sum that is too small would hide lost images.
        lost = self.objectionable + self.policy + self.not_found + self.failed + self.unmade
        if self.planned != self.made + lost:
            raise ValueError(f"the counts do not add up to the {self.planned} planned images")
        return self


class SlopeSummary(ResponseBody):
    """The line through the models' base and shifted accuracies (ID and OOD)."""

    slope: Estimate
    """Slope of the line by errors in variables; n counts models, and it is null where `refused` says why."""
    reliability: float | None = None
    """Share of the variance of the models' base accuracies that is not the sampling of images, from 0 to 1;
    null with too few models."""
    refused: str | None = None
    """Why there is no slope, or null where there is one."""
    without_one: tuple[float, float] | None = None
    """Lowest and highest slope when any one model is left out, or null with too few models."""
    leaning_on: str | None = None
    """Model without which the slope changes most, or null with too few models."""


class ModelDrop(ResponseBody):
    """One model's mean per-class accuracies over the same classes."""

    base: Estimate
    """Accuracy on the base images."""
    shifted: Estimate
    """Accuracy on the shifted images."""
    drop: Estimate
    """Base minus shifted accuracy."""
    classes: list[str] | None = None
    """Classes of which the model answered enough images, where they are not the effect's; null where they
    are."""
    compared: bool = True
    """Whether the impact, the slopes and the gap include the model; false if it answered too few images."""


class EffectSummary(ResponseBody):
    """The effect of a shift over one set of classes."""

    classes: list[str]
    """The classes that the effect is computed over."""
    models: dict[str, ModelDrop]
    """Accuracies of each model on the images that it answered; without models that answered too few."""
    impact: Estimate
    """Drop averaged over models (Dataset Interfaces, section 6); n counts shifted images, and the interval is
    over seeds only. It uses the images that all compared models answered."""
    impact_with_generator: Estimate | None = None
    """The same with an interval that also holds the generator's own error, or null where that was not
    measured."""
    p: float
    """Two-sided p-value of "the shift changes nothing"."""
    p_adjusted: float
    """The p-value after Holm's correction over the shifts of the image source."""
    slope: SlopeSummary
    """Slope of shifted over base accuracy."""
    probit_slope: SlopeSummary
    """The same slope after a probit transform of both accuracies."""

    @property
    def n_compared(self) -> int:
        """The number of models that the impact is averaged over."""
        return sum(model.compared for model in self.models.values())


class GapSummary(ResponseBody):
    """The accuracy that the generator alone costs, over models and the classes of a shift."""

    real: Estimate
    """Accuracy on real images."""
    base: Estimate
    """Accuracy on base images."""
    gap: Estimate
    """Real minus base accuracy."""
    beyond_impact: Estimate | None = None
    """Absolute gap minus the absolute impact of the shift, from the same draws of images; null in summaries
    of older versions."""


class ConditionSummary(ResponseBody):
    """The images of one image source under one condition."""

    counts: ImageCounts
    """Number of images by outcome."""
    share_kept: Estimate
    """Share of the generated images that were kept; n counts images."""
    thin: list[str] = []
    """Classes left out because fewer than five of their images were kept, or answered by every classifier
    that is compared."""
    unanswered: dict[str, int] = {}
    """Number of kept images on which a classifier failed, by classifier; its figures leave them out."""
    to_object: Estimate
    """Mean CLIP cosine with the object's caption, over all images, kept or not."""
    to_shift: Estimate | None = None
    """Mean CLIP cosine with the shift's caption, over all images, kept or not; null without a shift."""


class ShiftSummary(ConditionSummary):
    """One shift with one image source: its images, its threshold and its effect."""

    state: FindingState
    """The verdict: `breaks` if its loss of accuracy is significant at 0.05 after Holm's correction and the
    generator alone is shown to cost less; `suspected` if the generator alone may cost as much, or no real
    images tell; `test-unfit` if it is shown to cost more; `holds` if a loss of 0.10 or more is ruled out;
    `cannot-tell` otherwise."""
    family: str
    """Family of the shift, such as weather."""
    prompt: str
    """Prompt that its images are generated from."""
    caption: str
    """Caption that CLIP compares its images with."""
    classes: list[str] | None = None
    """Classes that the shift applies to, or null for all."""
    threshold: ThresholdInForce
    """The shift threshold in force."""
    effect: EffectSummary | None = None
    """Effect over the classes with enough kept images under this shift, or null if there are none."""
    on_common: EffectSummary | None = None
    """Effect over the classes with enough kept images under every shift; only these effects can be compared
    between shifts. Null if there are none."""
    gap: GapSummary | None = None
    """Accuracy that the generator alone costs, or null without real images."""
    confounded: bool = False
    """Whether the generator alone is shown to cost the models more than the shift does."""
    confounding: Literal["confounded", "not-confounded", "cannot-tell"] | None = None
    """What the interval of `beyond_impact` allows to say of it; null without real images."""


class ClassCondition(ResponseBody):
    """One class under one condition."""

    share_kept: Estimate
    """Share of the generated images that were kept."""
    models: dict[str, Estimate]
    """Accuracy of each model on the kept images."""


class UnsearchedImage(ResponseBody):
    """An image that the search left out."""

    image: BlobRef
    """SHA-256 of the image."""
    filename: str | None = None
    """Name of its file, or null if the dataset no longer has it."""
    reason: str
    """Why it was left out."""


class UnsearchedImages(ResponseBody):
    """The images of the searched dataset that could not be read."""

    count: int
    """Number of images left out."""
    images: int
    """Number of images of the dataset."""
    reasons: dict[str, int]
    """Number of images left out, by reason."""
    first: list[UnsearchedImage]
    """The first of these images."""


class ImageSourceSummary(ResponseBody):
    """All results of one image source."""

    base: ConditionSummary
    """The images without a shift."""
    shifts: dict[str, ShiftSummary]
    """The shifts, by name."""
    common: list[str]
    """Classes with enough kept images under every shift."""
    passed: Estimate
    """Share of all shifts' images that were kept (Dataset Interfaces, figure 17)."""
    to_object: Estimate
    """Mean CLIP cosine of all shifts' images with the object's caption."""
    to_shift: Estimate
    """Mean CLIP cosine of all shifts' images with their shift's caption."""
    classes: dict[str, dict[str, ClassCondition]] = {}
    """Yield and accuracy by class and condition; empty if there are too many, as `notes` then says."""
    cost: Cost
    """Total cost of all images."""
    service_seconds: dict[str, float] = {}
    """Seconds spent in each service."""
    evaluations_per_kept: float | None = None
    """UNet evaluations per kept image, including those of failed and dropped images; null if none was
    kept."""
    seconds_per_kept: float | None = None
    """Service seconds per kept image, including those of failed and dropped images; null if none was kept."""
    unsearched: UnsearchedImages | None = None
    """Images that the search left out, or null if it left out none."""


class ObjectThresholdSummary(ResponseBody):
    """A class's object threshold, set from its real images."""

    threshold: Estimate
    """Lowest CLIP cosine with "a photo of a <class>" that passes; n counts real images."""
    plain: Estimate
    """Lowest CLIP cosine with "a <class>" that passes, for styles."""
    dropped: Estimate
    """Share of the real images that lie below the threshold."""


class RealSummary(ResponseBody):
    """The real images that set the object thresholds and serve as controls."""

    images: int
    """Number of real images."""
    failed: int
    """Number of real images that failed."""
    thresholds: dict[str, ObjectThresholdSummary]
    """Object threshold, by class."""
    models: dict[str, Estimate]
    """Accuracy of each model on the real images, equally weighted."""
    unanswered: dict[str, int] = {}
    """Number of real images on which a classifier failed, by classifier."""
    without: list[str] = []
    """Classes without a real image: they have no object threshold, and all their images pass it."""


class UnansweredImages(ResponseBody):
    """Images on which a classifier failed; its figures leave them out, and no other classifier's do."""

    classifier: str
    """Name of the classifier."""
    images: int
    """Number of images without a prediction by it, kept or not."""
    of: int
    """Number of images that classifiers were asked about."""
    detail: str
    """Why it failed on the first of them."""
    outcomes: dict[str, Estimate] = Field(default={}, exclude_if=lambda shares: not shares)
    """As in a stress test's summary."""
    state: FindingState | None = None
    """`cannot-tell` if it answered too few images for a figure of any shift, or null."""

    def __str__(self) -> str:
        failed = f"{self.classifier} failed on {self.images} of {self.of} images"
        left = "can't tell what a shift costs it" if self.state else "they are left out for it"
        shares = "".join(f"; {code} {share}" for code, share in self.outcomes.items())
        return f"{failed}; {left} (first failure: {self.detail}){shares}"


class PromptAccuracy(ResponseBody):
    """Accuracy of one model on the kept images of one prompt, for benchmarks of a single class."""

    model: str
    """Name of the model."""
    image_source: str
    """Image source of the images."""
    condition: str
    """Name of the condition."""
    prompt: str
    """Prompt that the images were generated from."""
    accuracy: Estimate
    """Accuracy on the kept images."""
    drop: Estimate | None = None
    """Base accuracy minus this accuracy, over the seeds that both have; null for the base."""
    beside_token: Estimate | None = None
    """Accuracy on the token's images minus that on the plain name's, over the same prompt and seeds; null for
    the token."""


class ShiftBenchmarkSummary(RunSummary):
    """``GET /v1/runs/{run_id}/summary``: what each shift costs as the run stands."""

    kind: Literal["shift-benchmark"] = "shift-benchmark"
    """Kind of the run."""
    run_id: str
    """Id of the run."""
    interface: str
    """Run id of the dataset interface."""
    dataset: str
    """Name of the interface's dataset."""
    seed: int
    """Seed of the benchmark."""
    object_percentile: float
    """Percentile of each class's real images that sets its object threshold."""
    image_sources: dict[str, ImageSourceSummary]
    """Figures by image source."""
    real: RealSummary
    """The real images, and the thresholds set from them."""
    models: dict[str, ClassifierDescription]
    """Descriptions of the classifiers, by name."""
    prompts: list[PromptAccuracy] = []
    """Accuracies by prompt, for benchmarks of a single class; empty for others."""
    notes: list[str] = []
    """What could not be computed and what was left out, one sentence each."""
    unanswered: list[UnansweredImages] = []
    """The classifiers that failed on images, the most often first."""
    counts: dict[str, int]
    """Number of items planned and in each state."""
    failed_codes: dict[str, int] = {}
    """Number of failed items, by error code."""
    dropped: dict[str, int] = {}
    """Number of dropped items, by reason."""
    cost: Cost
    """Total cost of all items."""
    service_seconds: dict[str, float]
    """Seconds spent in each service."""
    wall_s: float
    """Seconds from the start to the end of the run; 0 while it has not ended."""
    config: ShiftBenchmarkConfig = Field(repr=False)
    """Everything the benchmark depends on."""

    def grouped_by(self, trait: ClassifierTrait) -> dict[str | int | None, list[str]]:
        """Return the classifiers by a trait, in the request's order; None stands for an unknown trait."""
        groups: dict[str | int | None, list[str]] = {}
        for name in self.config.request.classifiers:
            described = self.models.get(name)
            groups.setdefault(None if described is None else described.trait(trait), []).append(name)
        return groups

    def __str__(self) -> str:
        lines: list[str] = []
        for name, image_source in self.image_sources.items():
            lines += [f"{name}: {len(image_source.common)} classes common to all shifts", _HEADER]
            lines += [_line(shift, each) for shift, each in image_source.shifts.items()]
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        lost = {**self.dropped, **self.failed_codes}
        why = "; ".join(f"{reason}: {count}" for reason, count in lost.items())
        images = f"images: {counts}{f' ({why})' if why else ''}"
        return "\n".join([*lines, *map(str, self.unanswered), images, f"cost: {self.cost}", *self.notes])


_HEADER = f"{'shift':28} {'state':11} {'kept':>30} {'impact':>32} {'slope':>32}"


def _line(name: str, shift: ShiftSummary) -> str:
    impact = "-" if shift.effect is None else str(shift.effect.impact)
    slope = "-" if shift.effect is None else str(shift.effect.slope.slope)
    return f"{name[:28]:28} {shift.state:11} {shift.share_kept!s:>30} {impact:>32} {slope:>32}"
