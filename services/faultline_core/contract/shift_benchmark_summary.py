"""The body of ``GET /v1/shift-benchmarks/{id}/summary``: what each shift costs which models, and how sure."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from faultline_core.contract.base import ResponseBody
from faultline_core.contract.classifiers import ClassifierDescription, ClassifierTrait
from faultline_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from faultline_core.contract.shift_thresholds import ThresholdInForce
from faultline_core.types import BlobRef, Cost, Estimate


class PictureCounts(ResponseBody):
    """What became of the pictures of a condition and source; ``planned`` is always the sum of the rest.

    ``without_object`` fail the object's threshold alone, ``without_shift`` the shift's alone. Those that
    were not made look ``objectionable``, were ``not_found`` by the search, ``failed``, or are still
    ``unmade``: pending or cancelled.
    """

    planned: int
    kept: int = 0
    without_object: int = 0
    without_shift: int = 0
    without_both: int = 0
    objectionable: int = 0
    not_found: int = 0
    failed: int = 0
    unmade: int = 0

    @property
    def made(self) -> int:
        """Pictures that there are, kept or not."""
        return self.kept + self.without_object + self.without_shift + self.without_both

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        # A sum that is short hides lost pictures.
        if self.planned != self.made + self.objectionable + self.not_found + self.failed + self.unmade:
            raise ValueError("counts do not add up")
        return self


class SlopeSummary(ResponseBody):
    """The slope of the line through models' base and shifted accuracies; n counts models.

    ``without_one`` is the range of slopes that leaving any one model out makes of it, ``leaning_on`` the
    model without which it changes most: None with too few models.
    """

    slope: Estimate
    without_one: tuple[float, float] | None = None
    leaning_on: str | None = None


class ModelDrop(ResponseBody):
    """One model's mean per-class accuracies over the same classes; the drop is base less shifted."""

    base: Estimate
    shifted: Estimate
    drop: Estimate


class EffectSummary(ResponseBody):
    """What a shift costs over one set of classes.

    ``impact`` is the drop averaged over models, n its shifted pictures; ``p`` the two-sided p-value of "the
    shift changes nothing", ``p_adjusted`` the same after Holm's correction over the source's shifts.
    """

    classes: list[str]
    models: dict[str, ModelDrop]
    impact: Estimate
    p: float
    p_adjusted: float
    slope: SlopeSummary
    probit_slope: SlopeSummary


class GapSummary(ResponseBody):
    """Accuracy on real pictures less that on base pictures, over models and the classes of a shift."""

    real: Estimate
    base: Estimate
    gap: Estimate


class ConditionSummary(ResponseBody):
    """The pictures of one source under the base: how many, how many kept, and CLIP's similarities.

    ``thin`` names the classes left out because fewer than five pictures are kept. ``to_object`` and
    ``to_shift`` are means over all pictures made, ``share_kept`` is of them.
    """

    counts: PictureCounts
    share_kept: Estimate
    thin: list[str] = []
    to_object: Estimate
    to_shift: Estimate | None = None


class ShiftSummary(ConditionSummary):
    """One shift by one source: its pictures, its threshold, and what it costs.

    ``effect`` is over the classes that count under this shift, ``on_common`` over those that count under
    every shift of the source: only there may two shifts be compared. Either is None where no class is
    left. A shift is ``confounded`` where the generator alone costs the models more than it does.
    """

    family: str
    prompt: str
    caption: str
    classes: list[str] | None = None
    threshold: ThresholdInForce
    effect: EffectSummary | None = None
    on_common: EffectSummary | None = None
    gap: GapSummary | None = None
    confounded: bool = False


class ClassCondition(ResponseBody):
    """A class under one condition: yield, and each model's accuracy on the kept pictures."""

    share_kept: Estimate
    models: dict[str, Estimate]


class UnsearchedPicture(ResponseBody):
    """A picture that no search could find, why, and its file's name as long as its dataset has it."""

    image: BlobRef
    filename: str | None = None
    reason: str


class UnsearchedPictures(ResponseBody):
    """What could not be read of the ``pictures`` of the folder to retrieve from: ``count`` of them.

    ``reasons`` add up to it; ``first`` names some by their file names.
    """

    count: int
    pictures: int
    reasons: dict[str, int]
    first: list[UnsearchedPicture]


class SourceSummary(ResponseBody):
    """Everything by one source of pictures.

    ``common`` are the classes that count under every shift. ``passed``, ``to_object`` and ``to_shift`` are
    over the pictures of all shifts (Dataset Interfaces, figure 17). ``classes`` holds yield and accuracy by
    class and condition, nothing where these are more than ``notes`` say. ``evaluations_per_kept`` and
    ``seconds_per_kept`` are what a kept picture took of the network and of all services, failed and dropped
    ones included. ``unsearched`` are pictures that retrieval had to leave out, None where it left out none.
    """

    base: ConditionSummary
    shifts: dict[str, ShiftSummary]
    common: list[str]
    passed: Estimate
    to_object: Estimate
    to_shift: Estimate
    classes: dict[str, dict[str, ClassCondition]] = {}
    cost: Cost
    service_seconds: dict[str, float] = {}
    evaluations_per_kept: float | None = None
    seconds_per_kept: float | None = None
    unsearched: UnsearchedPictures | None = None


class ObjectThresholdSummary(ResponseBody):
    """A class's least similarity that passes, from ``n`` real pictures; of styles it is ``plain``.

    ``dropped`` is the share of real pictures below it.
    """

    threshold: Estimate
    plain: Estimate
    dropped: Estimate


class RealSummary(ResponseBody):
    """The real pictures that a benchmark is held against: thresholds by class, accuracy by model.

    Each picture weighs 1 in an accuracy. Classes ``without`` one have no object threshold: everything of
    them passes that criterion.
    """

    pictures: int
    failed: int
    thresholds: dict[str, ObjectThresholdSummary]
    models: dict[str, Estimate]
    without: list[str] = []


class PromptAccuracy(ResponseBody):
    """One model on one prompt's kept pictures by one source (fine-grained debugging, one class).

    ``drop`` is what the prompt costs beside the base, over the seeds that both have; ``beside_token`` by
    how much pictures of the class's name do worse than the token's of the same prompt and seeds.
    """

    model: str
    source: str
    condition: str
    prompt: str
    accuracy: Estimate
    drop: Estimate | None = None
    beside_token: Estimate | None = None


class ShiftBenchmarkSummary(ResponseBody):
    """What a benchmark comes to as it stands; nothing is generated for it.

    ``object_percentile`` of each class's real pictures sets its threshold. ``models`` is what is known of
    each classifier, to group by. ``prompts`` is there where one class was asked about. ``notes`` say what
    could not be told, and what was left out.
    """

    run_id: str
    interface: str
    dataset: str
    seed: int
    object_percentile: float
    sources: dict[str, SourceSummary]
    real: RealSummary
    models: dict[str, ClassifierDescription]
    prompts: list[PromptAccuracy] = []
    notes: list[str] = []
    counts: dict[str, int]
    failed_codes: dict[str, int] = {}
    dropped: dict[str, int] = {}
    cost: Cost
    service_seconds: dict[str, float]
    wall_s: float
    config: ShiftBenchmarkConfig = Field(repr=False)

    def grouped_by(self, trait: ClassifierTrait) -> dict[str | int | None, list[str]]:
        """The classifiers by a trait, in the request's order; None are those it is not known of."""
        groups: dict[str | int | None, list[str]] = {}
        for name in self.config.request.classifiers:
            told = self.models.get(name)
            groups.setdefault(None if told is None else told.trait(trait), []).append(name)
        return groups

    def __str__(self) -> str:
        lines: list[str] = []
        for name, source in self.sources.items():
            lines += [f"{name}: {len(source.common)} classes common to all shifts", _HEADER]
            lines += [_line(shift, each) for shift, each in source.shifts.items()]
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        lost = {**self.dropped, **self.failed_codes}
        why = "; ".join(f"{reason}: {count}" for reason, count in lost.items())
        told = f"pictures: {counts}{f' ({why})' if why else ''}"
        return "\n".join([*lines, told, f"cost: {self.cost}", *self.notes])


_HEADER = f"{'shift':28} {'kept':>30} {'impact':>32} {'slope':>32}"


def _line(name: str, shift: ShiftSummary) -> str:
    impact = "-" if shift.effect is None else str(shift.effect.impact)
    slope = "-" if shift.effect is None else str(shift.effect.slope.slope)
    flag = " confounded" if shift.confounded else ""
    return f"{name[:28]:28} {shift.share_kept!s:>30} {impact:>32} {slope:>32}{flag}"
