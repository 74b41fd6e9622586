"""What an export tells of a shift benchmark's pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from faultline_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from faultline_core.contract.shift_benchmarks import PictureItem, PictureResult
from faultline_core.types import Estimate
from faultline_gateway.exports.card import Card
from faultline_gateway.exports.records import Origin, Record
from faultline_gateway.workflows.benchmark_cells import GENERATED
from faultline_gateway.workflows.picture_verdicts import verdict_of


def benchmark_records(
    summary: ShiftBenchmarkSummary,
    items: Iterable[PictureItem],
    *,
    dropped: bool = False,
    found: bool = False,
) -> Iterator[Record]:
    """Yield a record for each generated picture that the summary's thresholds keep.

    ``dropped`` adds those they drop, ``found`` those that were retrieved, scraped, photographed or real:
    these are somebody's photographs and not ours to hand on unasked.
    """
    for item in items:
        result = item.result
        if item.state != "done" or result is None or not (found or result.source in GENERATED):
            continue
        verdict = verdict_of(result, item.label, summary)
        if dropped or verdict == "kept":
            yield _record(summary.run_id, item, result, verdict)


def benchmark_card(summary: ShiftBenchmarkSummary, *, dropped: bool = False) -> Card:
    """Say what a benchmark's pictures are, what the thresholds dropped, and what each shift costs."""
    passed: dict[str, Estimate] = {}
    impacts: dict[str, Estimate] = {}
    for source, told in summary.sources.items():
        passed[f"base by {source}"] = told.base.share_kept
        for name, shift in told.shifts.items():
            passed[f"{name} by {source}"] = shift.share_kept
            if shift.effect is not None:
                impacts[f"impact of {name} by {source}"] = shift.effect.impact
    of_them = " Pictures that the thresholds drop are among them." if dropped else ""
    return Card(
        title=f"Shifts of {summary.dataset}",
        what=(
            "Classes of a dataset under shifts of background, weather, style and others, and without one "
            f"(`base`), to see which shifts make an image classifier fail.{of_them}"
        ),
        made=(
            "Dataset interfaces: one token a class was learned by textual inversion, and pictures were "
            "generated from each class under each shift, base and shifts from the same seeds. Faultline's "
            f"run `{summary.run_id}` on the interface `{summary.interface}`, seed {summary.seed}, suite "
            f"`{summary.config.suite}`; object thresholds at the {summary.object_percentile:g}th percentile "
            "of real pictures, shift thresholds as in the run's summary."
        ),
        filters=passed,
        figures=impacts,
    )


def _record(run_id: str, item: PictureItem, result: PictureResult, verdict: str) -> Record:
    origin: Origin = "generated" if result.source in GENERATED else "photograph"
    return Record(
        picture=result.image,
        class_name=item.label,
        shift=result.shift,
        source=result.source,
        run=run_id,
        prompt=result.prompt,
        seed=result.seed,
        model=result.models["editor"] if origin == "generated" else None,
        bundle=result.token,
        scores=_scores(result),
        verdict=verdict if verdict == "kept" else f"no {verdict}",
        origin=origin,
    )


def _scores(result: PictureResult) -> dict[str, float | None]:
    """CLIP's cosines, then p(true class) of every classifier."""
    scores: dict[str, float | None] = {
        "object_similarity": result.object_similarity,
        "shift_similarity": result.shift_similarity,
    }
    return scores | {f"p_true {name}": found.p_true for name, found in result.predictions.items()}
