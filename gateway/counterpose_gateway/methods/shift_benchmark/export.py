"""The records and the card of an exported shift benchmark.

The pairs of a shift benchmark that a gate classifies again: base and shifted image of one seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from counterpose_core.contract.served_images import seed_of
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageItem, ImageResult
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.types import BlobRef, Estimate
from counterpose_gateway.exports.card import Card
from counterpose_gateway.exports.records import Origin, Record, answers_of
from counterpose_gateway.methods.shift_benchmark.cells import GENERATED
from counterpose_gateway.methods.shift_benchmark.threshold_review import filter_verdict
from counterpose_gateway.runs.method import ExportChoice


def export(
    summary: ShiftBenchmarkSummary, items: Iterable[ImageItem], choice: ExportChoice
) -> tuple[Card, Iterator[Record]]:
    """Return the images that the summary's thresholds keep."""
    records = benchmark_records(summary, items, dropped=choice.dropped, found=choice.found)
    return benchmark_card(summary, dropped=choice.dropped), records


def benchmark_records(
    summary: ShiftBenchmarkSummary, items: Iterable[ImageItem], *, dropped: bool = False, found: bool = False
) -> Iterator[Record]:
    """Yield a record for each generated image that the summary's thresholds keep.

    ``dropped`` adds those they drop, ``found`` those that were retrieved, scraped, photographed or real:
    these are other people's photographs, so they are exported only on request.
    """
    for item in items:
        result = item.result
        if item.state != "done" or result is None or not (found or result.image_source in GENERATED):
            continue
        verdict = filter_verdict(result, item.label, summary)
        if dropped or verdict == "kept":
            yield _record(summary.run_id, item, result, verdict)


def benchmark_card(summary: ShiftBenchmarkSummary, *, dropped: bool = False) -> Card:
    """Describe a benchmark's images, the share that passed the thresholds, and the impact of each shift."""
    passed: dict[str, Estimate] = {}
    impacts: dict[str, Estimate] = {}
    for image_source, source_summary in summary.image_sources.items():
        passed[f"base by {image_source}"] = source_summary.base.share_kept
        for name, shift in source_summary.shifts.items():
            passed[f"{name} by {image_source}"] = shift.share_kept
            if shift.effect is not None:
                impacts[f"impact of {name} by {image_source}"] = shift.effect.impact
    of_them = " The set includes images that the thresholds drop." if dropped else ""
    return Card(
        title=f"Shifts of {summary.dataset}",
        what=(
            "Images of a dataset's classes under shifts of background, weather, style and others, and "
            f"without a shift (`base`), to see which shifts make an image classifier fail.{of_them}"
        ),
        made=(
            "Dataset interfaces: textual inversion learned one token per class, and a generator made "
            "images of each class under each shift, base and shifts from the same seeds. Counterpose's "
            f"run `{summary.run_id}` on the interface `{summary.interface}`, seed {summary.seed}, suite "
            f"`{summary.config.suite}`; object thresholds at the {summary.object_percentile:g}th percentile "
            "of real images, shift thresholds from the run's summary."
        ),
        filters=passed,
        figures=impacts,
    )


def _record(run_id: str, item: ImageItem, result: ImageResult, verdict: str) -> Record:
    origin: Origin = "generated" if result.image_source in GENERATED else "photograph"
    seed = seed_of(result.seed, result.served)
    return Record(
        image=result.image,
        item=item.id,
        class_name=item.label,
        shift=result.shift,
        image_source=result.image_source,
        run=run_id,
        prompt=result.prompt,
        seed=seed,
        repeatable=result.served is None or seed is not None,
        model=result.models["editor"] if origin == "generated" else None,
        bundle=result.token,
        scores=_scores(result),
        answers=answers_of(result.predictions),
        verdict=verdict if verdict == "kept" else f"no {verdict}",
        origin=origin,
    )


def _scores(result: ImageResult) -> dict[str, float | None]:
    """CLIP's cosines, then p(true class) of every classifier."""
    scores: dict[str, float | None] = {
        "object_similarity": result.object_similarity,
        "shift_similarity": result.shift_similarity,
    }
    return scores | {f"truth {name}": prediction.score for name, prediction in result.predictions.items()}


def shifted_pairs(summary: ShiftBenchmarkSummary, items: Iterable[ImageItem]) -> Iterator[FrozenPair]:
    """Yield each generated image of a shift with the base image of its seed, if the thresholds keep both.

    Images that were found have no counterpart without the shift.
    """
    kept = [
        (item, item.result)
        for item in items
        if item.state == "done"
        and item.result is not None
        and item.result.image_source in GENERATED
        and filter_verdict(item.result, item.label, summary) == "kept"
    ]
    base: dict[tuple[str, str, int], BlobRef] = {
        (result.image_source, item.label, item.slot): result.image
        for item, result in kept
        if result.shift == BASE
    }
    several = len({result.image_source for _, result in kept}) > 1
    for item, result in kept:
        source = base.get((result.image_source, item.label, item.slot))
        if source is not None and result.shift != BASE:
            change = f"{result.shift} by {result.image_source}" if several else result.shift
            yield FrozenPair(change, item.label, unit=source, source=source, image=result.image)
