"""The records and the card of exported counterfactuals of a stress test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.perturber import WordSpan
from counterpose_core.contract.preservation import OF_EDITS, OF_REGIONS, Preservation
from counterpose_core.contract.runs import Item, ItemResult
from counterpose_core.contract.served_images import seed_of
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.types import ItemKind
from counterpose_gateway.exports.card import Card
from counterpose_gateway.exports.records import KEPT, Record, Source, answers_of
from counterpose_gateway.methods.stress_test.thresholds import judging_of
from counterpose_gateway.methods.stress_test.transforms.export import operation_card, operation_records
from counterpose_gateway.methods.stress_test.transforms.process import OPERATIONS
from counterpose_gateway.runs.method import ExportChoice
from counterpose_gateway.steps.objectionable import OBJECTIONABLE

_IMAGE_SOURCES: dict[ItemKind, str] = {
    "edit": "edit",
    "lance-r": "lance-r",
    "intervention": "own edit",
    "confirmation": "confirmation",
}
"""Kinds of items whose images are counterfactuals; reconstructions and placebos are controls."""


def export(
    summary: StressTestSummary, items: Iterable[Item], choice: ExportChoice
) -> tuple[Card, Iterator[Record]]:
    """Return the counterfactuals, judged as in the summary, or what operations make of each photograph."""
    config = StressTestConfig.model_validate(summary.config)
    if not config.edits_captions:
        return operation_card(summary), operation_records(summary, items)
    judging = judging_of(summary)
    judged = items if judging is None else judging.items(items)
    card = counterfactual_card(summary, dropped=choice.dropped)
    if config.transforms is not None:
        card = _with(operation_card(summary), card, summary.dataset)
    return card, _records(summary, judged, dropped=choice.dropped)


def _records(summary: StressTestSummary, items: Iterable[Item], *, dropped: bool) -> Iterator[Record]:
    """Yield the records of both kinds of items, which are read once."""
    for is_operation, part in groupby(items, key=lambda item: item.kind == OPERATIONS):
        if is_operation:
            yield from operation_records(summary, part)
        else:
            yield from counterfactual_records(summary, part, dropped=dropped)


def _with(operations: Card, edits: Card, dataset: str) -> Card:
    return replace(
        edits,
        title=f"Counterfactuals of {dataset}, and operations on it",
        what=f"{edits.what}\n\n{operations.what}",
        made=f"{edits.made}\n\n{operations.made}",
        figures={**edits.figures, **operations.figures},
    )


def counterfactual_records(
    summary: StressTestSummary, items: Iterable[Item], *, dropped: bool = False
) -> Iterator[Record]:
    """Yield a record for each kept counterfactual; ``dropped`` adds those that a filter dropped.

    Images that were dropped as objectionable are never included.
    """
    config = StressTestConfig.model_validate(summary.config)
    for item in items:
        kept = item.state == "done"
        if item.result is None or item.kind not in _IMAGE_SOURCES or item.reason == OBJECTIONABLE:
            continue
        if kept or (dropped and item.state == "filtered"):
            yield _record(summary, config, item, item.result)


def counterfactual_card(summary: StressTestSummary, *, dropped: bool = False) -> Card:
    """Describe the counterfactuals of a stress test, the yield of its filters, and its results."""
    of_them = "The set includes images that a filter dropped, each with its reason." if dropped else ""
    return Card(
        title=f"Counterfactuals of {summary.dataset}",
        what=(
            "Real images with one thing changed, to see which changes make an image classifier fail. "
            f"`shift` is the kind of change, `prompt` the edited caption. {of_them}"
        ).strip(),
        made=(
            "LANCE: each image was captioned, one thing in the caption was changed, and the image was edited "
            f"to match. Counterpose's run `{summary.run_id}`, seed {summary.seed}, "
            f"suite `{summary.config.get('suite', '')}`."
        ),
        filters=summary.yields,
        figures={f"accuracy drop of {name}": model.drop for name, model in summary.models.items()},
    )


def _record(summary: StressTestSummary, config: StressTestConfig, item: Item, result: ItemResult) -> Record:
    seed = seed_of((result.preset or config.editing).image_seed, result.served)
    repeatable = not (summary.unrepeated_seeds or (result.served is not None and seed is None))
    return Record(
        image=result.image,
        item=item.id,
        class_name=item.label,
        shift=_shift(config, item),
        image_source=_IMAGE_SOURCES[item.kind],
        run=summary.run_id,
        prompt=result.edited_caption or result.caption,
        seed=seed if repeatable else None,
        repeatable=repeatable,
        model=result.models["editor"],
        scores=_scores(result),
        answers=answers_of(result.predictions),
        source=Source(
            image=item.source_image,
            caption=result.caption,
            changed=_shift(config, item),
            removed=_words(result.removed),
            added=_words(result.added),
            answers=answers_of(result.original_predictions),
        ),
        verdict=KEPT if item.state == "done" else item.reason or item.state,
        origin="edited",
    )


def _words(spans: Iterable[WordSpan]) -> str:
    return " ".join(word for span in spans for word in span.words)


def _shift(config: StressTestConfig, item: Item) -> str:
    if item.kind == "intervention":
        chosen = config.request.interventions[item.slot]
        return Intervention(removed=chosen.removed, added=chosen.added).in_words()
    return item.edit_type or item.kind


def _scores(result: ItemResult) -> dict[str, float | None]:
    """CLIP's cosines, then p(true class) of every classifier after the edit and before."""
    scores: dict[str, float | None] = {} if result.scores is None else result.scores.model_dump()
    if result.preservation is not None:
        scores |= _of_preservation(result.preservation, bounded=result.region is not None)
    # 1 for yes, 0 for no, None without a vote.
    votes = {"yes": 1.0, "no": 0.0}
    scores |= {f"judge {name}": votes.get(each.verdict) for name, each in result.judgements.items()}
    for name, after in result.predictions.items():
        scores[f"truth {name}"] = after.score
    for name, before in result.original_predictions.items():
        scores[f"truth_before {name}"] = before.score
    return scores


def _of_preservation(preserved: Preservation, *, bounded: bool = False) -> dict[str, float | None]:
    """Every fault, 1 where the image has it, None where it cannot be told, and the measures behind them.

    ``bounded``: whether the edit had a region.
    """
    moved, inside, outside = preserved.movement, preserved.inside, preserved.outside
    return {
        **{
            f"preservation {fault}": None
            if fault in preserved.unmeasured
            else float(fault in preserved.faults)
            for fault in (*OF_EDITS, *(OF_REGIONS if bounded else ()))
        },
        "preservation shift": None if moved is None else max(map(abs, moved.shift)),
        "preservation scale": None if moved is None else max(abs(axis - 1.0) for axis in moved.scale),
        "preservation region_share": preserved.region_share,
        "preservation inside_colour": None if inside is None else inside.colour,
        "preservation outside_colour": None if outside is None else outside.colour,
    }
