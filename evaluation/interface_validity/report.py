"""`results/interface-validity.json`: dataset interfaces and rendered truth, with intervals and n."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from counterpose_core.types import Estimate


class Part(BaseModel):
    """A frozen part of the report that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ErrorFigures(Part):
    """Absolute errors of accuracies under shifts against rendered truth, over models and cells."""

    token_error: Estimate
    class_name_error: Estimate
    difference: Estimate


class Cell(Part):
    """A class under a shift: accuracies averaged over models, true and by image source."""

    shift: str
    class_name: str
    truth: Estimate
    token: Estimate
    by_class_name: Estimate


class ConfoundingFigures(Part):
    """The paper's headline: over all, mismatched and matched classes, and class by class."""

    all: ErrorFigures
    mismatched: ErrorFigures
    matched: ErrorFigures
    by_class: dict[str, ErrorFigures]
    cells: list[Cell]


class ImageSourceFigures(Part):
    """What images of one image source show: by the oracle, and in CLIP's space.

    ``mismatch`` is the share of mismatched classes' images that show the class as the dataset does.
    ``kernel_distance`` is between base images and the class's real images, averaged over classes.
    """

    class_accuracy: Estimate
    shift_presence: Estimate
    presence_by_shift: dict[str, Estimate]
    mismatch: dict[str, Estimate]
    object_similarity: Estimate
    object_similarity_by_class: dict[str, Estimate]
    kernel_distance: Estimate


class ImageSourceComparison(Part):
    """Both image sources' images, and the token's shift presence as a share of the class name's."""

    token: ImageSourceFigures
    class_name: ImageSourceFigures
    presence_ratio: Estimate


class ShiftFigures(Part):
    """One shift: its impact and slope, estimated and rendered, and whether the interval holds the truth."""

    shift: str
    impact: Estimate
    true_impact: Estimate
    impact_held: bool
    slope: Estimate
    true_slope: Estimate
    slope_held: bool | None


class ImpactFigures(Part):
    """Impacts and slopes of one image source's images against rendered ones; n counts shifts, or drops."""

    shifts: list[ShiftFigures]
    rank_correlation: Estimate
    drop_rank_correlation: Estimate
    mean_absolute_error: Estimate
    coverage: Estimate
    slope_error: Estimate
    slope_coverage: Estimate


class FilterFigures(Part):
    """How far CLIP's filter keeps what the oracle calls good, and how much of each condition it keeps."""

    before: Estimate
    precision: Estimate
    recall: Estimate
    yields: dict[str, Estimate]
    thin: dict[str, list[str]]


class SpentFigures(Part):
    """The average cost of a unit; n counts units."""

    unet_evaluations: Estimate
    seconds: Estimate


class CostFigures(Part):
    """The cost of a token, an image and a kept image, the latter two by image source."""

    token: SpentFigures
    image: dict[str, SpentFigures]
    kept_image: dict[str, SpentFigures]


class BatchingFigures(Part):
    """What batches gain: the speed-up, and the difference from one call after another.

    ``tokens`` is of eight classes at one sample a class and step, as published, ``tokens_by_preset`` at the
    suite's number of samples; ``generation`` is of 16 images; n counts rounds. ``tokens_difference`` is the
    largest difference of a number of the vectors learned together and alone in float64; n counts them.
    """

    tokens: Estimate
    tokens_by_preset: Estimate
    tokens_difference: Estimate
    generation: Estimate


class Aim(Part):
    """One figure, its target, and whether it was reached; None where that is unknown."""

    name: str
    aim: str
    reached: str
    met: bool | None


class FineImageSourceFigures(Part):
    """What one image source's images of codes show: the code's bus, and separately its kind, colour, class.

    ``confusion`` counts images by the requested code, then by the code whose bus they show.
    """

    code: Estimate
    kind: Estimate
    colour: Estimate
    object_class: Estimate
    shift_presence: Estimate
    by_code: dict[str, Estimate]
    by_condition: dict[str, Estimate]
    confusion: dict[str, dict[str, int]]


class FineGrainedFigures(Part):
    """Six kinds of bus under codes: by token, by the word that the tokens started from, and by description.

    ``codes`` says what each stands for; ``shares`` how much of what it learned its token keeps, one number a
    stretch. ``above_shared_word`` is the token's share of images that show the code less the shared word's.
    """

    codes: dict[str, str]
    shifts: list[str]
    shares: dict[str, list[float]]
    token: FineImageSourceFigures
    shared_word: FineImageSourceFigures
    description: FineImageSourceFigures
    above_shared_word: Estimate


class InterfaceValidity(Part):
    """Every figure, for the images that the filter kept; ``unfiltered`` repeats them for all images.

    ``fine_grained`` is of a dataset of its own, every image of it; None where it was not measured.
    """

    seeds: list[int]
    classes: list[str]
    mismatched: list[str]
    models: list[str]
    shifts: list[str]
    confounding: ConfoundingFigures
    unfiltered: ConfoundingFigures
    image_sources: ImageSourceComparison
    impact: dict[str, ImpactFigures]
    filter: dict[str, FilterFigures]
    cost: CostFigures
    batching: BatchingFigures
    fine_grained: FineGrainedFigures | None = None
    aims: list[Aim]
    seconds: dict[str, float]
