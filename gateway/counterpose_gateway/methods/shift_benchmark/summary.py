"""The summary of a shift benchmark: from recorded images to the cost of each shift, by image source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np

from counterpose_core.contract.classifiers import ClassifierTrait
from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmark_summary import (
    ImageSourceSummary,
    PromptAccuracy,
    RealSummary,
    ShiftBenchmarkSummary,
)
from counterpose_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from counterpose_core.contract.shift_thresholds import ShiftThresholdDecision, ThresholdInForce
from counterpose_core.shift_benchmark.fine_grained import Images, compare_prompts
from counterpose_core.shift_benchmark.object_thresholds import OBJECT_PERCENTILE
from counterpose_core.shift_benchmark.shift_filter import LEAST_IMAGES
from counterpose_core.statistics.bootstrap import Flags
from counterpose_core.types import Cost
from counterpose_gateway.methods.shift_benchmark.cells import GENERATED
from counterpose_gateway.methods.shift_benchmark.columns import ImageColumns, Usage, summarize_unanswered
from counterpose_gateway.methods.shift_benchmark.evidence import ImageSourceEvidence, RealEvidence
from counterpose_gateway.methods.shift_benchmark.image_source_summary import summarize_image_source
from counterpose_gateway.methods.shift_benchmark.images import UnreadableImages, unreadable_notes
from counterpose_gateway.methods.shift_benchmark.threshold_review import (
    ThresholdsByForm,
    summarize_real,
    thresholds_in_force,
)
from counterpose_gateway.reports.text import truncate_list
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.steps.estimator import Estimator
from counterpose_gateway.summaries.accounting import ends_of, total_seconds, wall_seconds


def summarize(
    run: Run,
    columns: ImageColumns,
    decisions: Sequence[ShiftThresholdDecision] = (),
    *,
    object_percentile: float = OBJECT_PERCENTILE,
    folder: UnreadableImages | None = None,
) -> ShiftBenchmarkSummary:
    """Sum up a run so far, under the thresholds in force; nothing is generated or measured again.

    ``columns`` are those of all its items. ``folder`` reads which images were not searched; without it the
    notes say that this is unknown.

    Raises:
        InvalidRequest: the object percentile is not a valid percentile.
    """
    config = recorded_config(ShiftBenchmarkConfig, run)
    estimator = Estimator(config.request.seed)
    real = RealEvidence.of(columns, config)
    limits = ThresholdsByForm.of(real, checkpoint=config.clip, percentile=object_percentile)
    thresholds = thresholds_in_force(config, decisions)
    least = {name: _least(threshold) for name, threshold in thresholds.items()}
    image_sources: dict[str, ImageSourceSummary] = {}
    judged = []
    for image_source in config.request.image_sources:
        evidence = ImageSourceEvidence.of(image_source, columns, config)
        usage = columns.usage.get(image_source, Usage())
        verdicts = evidence.judged(config.clip, limits.least(evidence.conditions, evidence.classes), least)
        left_out = None if folder is None else folder.left_out(usage.unsearched, config)
        image_sources[image_source] = summarize_image_source(
            evidence, verdicts, usage, real, thresholds, estimator, left_out, suite=config.suite
        )
        judged.append((evidence, verdicts.kept))
    real_summary = summarize_real(real, limits)
    everything = np.arange(len(columns))
    return ShiftBenchmarkSummary(
        run_id=run.id,
        interface=config.request.interface,
        dataset=run.dataset,
        seed=config.request.seed,
        object_percentile=object_percentile,
        image_sources=image_sources,
        real=real_summary,
        models=config.zoo,
        prompts=summarize_prompts(judged, estimator),
        notes=[
            *_notes(config, image_sources, real_summary, thresholds),
            *unreadable_notes(config, columns.usage, image_sources),
            *_repeated(columns),
            *_changed_weights(columns),
        ],
        unanswered=summarize_unanswered(columns.failures, image_sources),
        counts=ends_of(columns.counted("state", everything)),
        failed_codes=columns.counted("code", columns.of_state(everything, "failed")),
        dropped=columns.counted("reason", columns.of_state(everything, "filtered")),
        cost=sum((usage.cost for usage in columns.usage.values()), Cost()),
        service_seconds=total_seconds(usage.seconds for usage in columns.usage.values()),
        wall_s=wall_seconds(run),
        config=config,
    )


def _least(threshold: ThresholdInForce) -> float | None:
    """The lowest similarity that passes: None where nothing does, minus infinity where everything does."""
    if threshold.nothing_passes:
        return None
    return -np.inf if threshold.threshold is None else threshold.threshold


def _notes(
    config: ShiftBenchmarkConfig,
    image_sources: Mapping[str, ImageSourceSummary],
    real: RealSummary,
    thresholds: Mapping[str, ThresholdInForce],
) -> list[str]:
    notes: list[str] = []
    if config.missing:
        notes.append(f"classes left out because the interface has no token: {', '.join(config.missing)}")
    if real.without:
        names = ", ".join(real.without)
        notes.append(f"classes without real images, so no object threshold or confounder gap: {names}")
    unset = [name for name, threshold in thresholds.items() if threshold.set_by is None]
    if unset:
        notes.append(f"shifts without a threshold, so only the object criterion applies: {', '.join(unset)}")
    if config.request.n < LEAST_IMAGES:
        notes.append(
            f"{config.request.n} images per class and condition: a class needs at least {LEAST_IMAGES}"
        )
    if not all(image_source.classes for image_source in image_sources.values()):
        notes.append("figures of single classes are omitted: there are too many of them, or no images")
    return [*notes, *missing_metadata(config)]


def _repeated(columns: ImageColumns) -> list[str]:
    """A note on the retrieved images that are no independent ones."""
    if not columns.repeated:
        return []
    return [
        f"{columns.repeated} of {columns.retrieved} retrieved images count once with another of their "
        "class: they are the same, nearly equal by CLIP, or of one group"
    ]


def _changed_weights(columns: ImageColumns) -> list[str]:
    """A note for each name whose weights changed during the run."""
    answered: dict[str, set[str]] = {}
    for usage in columns.usage.values():
        for name, models in usage.weights.items():
            answered.setdefault(name, set()).update(models)
    return [
        f"the weights of {name!r} changed during the run: {', '.join(sorted(models))}"
        for name, models in sorted(answered.items())
        if len(models) > 1
    ]


def missing_metadata(config: ShiftBenchmarkConfig) -> list[str]:
    """A note listing each trait's classifiers that lack it, or nothing where all traits are known."""
    missing: list[str] = []
    for trait in get_args(ClassifierTrait):
        names = [
            name
            for name in config.request.classifiers
            if (described := config.zoo.get(name)) is None or described.trait(trait) is None
        ]
        if names:
            missing.append(f"{trait} of {truncate_list(names)}")
    return [f"missing metadata, so in no group by it: {'; '.join(missing)}"] if missing else []


def summarize_prompts(
    seen: Sequence[tuple[ImageSourceEvidence, Flags]], estimator: Estimator
) -> list[PromptAccuracy]:
    """Compare the prompts of the only class for each model; empty with several classes.

    ``seen`` are the image sources, each with flags of its kept images. Only generated images are compared,
    because others share no seeds.
    """
    sides = [(evidence, kept) for evidence, kept in seen if evidence.image_source in GENERATED]
    if not sides or len(sides[0][0].classes) > 1:
        return []
    rows: list[PromptAccuracy] = []
    for index, model in enumerate(sides[0][0].models):
        answers: dict[str, dict[str, Images]] = {
            evidence.image_source: {
                name: {
                    int(place): float(evidence.right[condition, 0, place, index])
                    for place in evidence.counted(kept)[condition, 0, :, index].nonzero()[0]
                }
                for condition, name in enumerate(evidence.names)
            }
            for evidence, kept in sides
        }
        prompts = {shift.name: shift.prompt for evidence, _ in sides for shift in evidence.conditions}
        rows += [
            PromptAccuracy(
                model=model,
                image_source=comparison.image_source,
                condition=comparison.prompt,
                prompt=prompts[comparison.prompt],
                accuracy=comparison.accuracy,
                drop=comparison.drop,
                beside_token=comparison.beside_token,
            )
            for comparison in compare_prompts(answers, estimator.generator(f"prompts/{model}"))
        ]
    return rows
