"""What an export tells of a stress test's counterfactuals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from faultline_core.contract.interventions import Intervention
from faultline_core.contract.runs import Item, ItemResult
from faultline_core.contract.stress_tests import StressTestConfig, StressTestSummary
from faultline_core.types import ItemKind
from faultline_gateway.exports.card import Card
from faultline_gateway.exports.records import KEPT, Record
from faultline_gateway.workflows.objectionable import OBJECTIONABLE

_SOURCES: dict[ItemKind, str] = {"edit": "edit", "lance-r": "lance-r", "intervention": "own edit"}
"""Kinds of items whose pictures are counterfactuals; reconstructions and placebos are controls."""


def counterfactual_records(
    run_id: str, config: StressTestConfig, items: Iterable[Item], *, dropped: bool = False
) -> Iterator[Record]:
    """Yield a record for each counterfactual that was kept; ``dropped`` ones too, where they are asked for.

    What a filter took for objectionable is never among them.
    """
    for item in items:
        kept = item.state == "done"
        if item.result is None or item.kind not in _SOURCES or item.reason == OBJECTIONABLE:
            continue
        if kept or (dropped and item.state == "filtered"):
            yield _record(run_id, config, item, item.result)


def counterfactual_card(summary: StressTestSummary, *, dropped: bool = False) -> Card:
    """Say what the counterfactuals of a stress test are, what its filters dropped and what it found."""
    of_them = "Pictures that a filter dropped are among them, each under its reason." if dropped else ""
    return Card(
        title=f"Counterfactuals of {summary.dataset}",
        what=(
            "Real pictures with one thing changed, to see which changes make an image classifier fail. "
            f"`shift` is the kind of change, `prompt` the edited caption. {of_them}"
        ).strip(),
        made=(
            "LANCE: each picture was captioned, one thing in the caption was changed, and the picture edited "
            f"to fit. Faultline's run `{summary.run_id}`, seed {summary.seed}, "
            f"suite `{summary.config.get('suite', '')}`."
        ),
        filters=summary.yields,
        figures={f"accuracy drop of {name}": model.drop for name, model in summary.models.items()},
    )


def _record(run_id: str, config: StressTestConfig, item: Item, result: ItemResult) -> Record:
    return Record(
        picture=result.image,
        class_name=item.label,
        shift=_shift(config, item),
        source=_SOURCES[item.kind],
        run=run_id,
        prompt=result.edited_caption or result.caption,
        seed=(result.preset or config.preset).seed,
        model=result.models["editor"],
        scores=_scores(result),
        verdict=KEPT if item.state == "done" else item.reason or item.state,
        origin="edited",
    )


def _shift(config: StressTestConfig, item: Item) -> str:
    if item.kind == "intervention":
        chosen = config.request.interventions[item.slot]
        return Intervention(removed=chosen.removed, added=chosen.added).in_words()
    return item.edit_type or item.kind


def _scores(result: ItemResult) -> dict[str, float | None]:
    """CLIP's cosines, then p(true class) of every classifier after the edit and before."""
    scores: dict[str, float | None] = {} if result.scores is None else result.scores.model_dump()
    for name, after in result.predictions.items():
        scores[f"p_true {name}"] = after.p_true
    for name, before in result.original_predictions.items():
        scores[f"p_true_before {name}"] = before.p_true
    return scores
