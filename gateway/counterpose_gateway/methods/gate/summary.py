"""Sum up a gate: every cell with its interval, and the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from counterpose_core.contract.gates import GateConfig, GateExample, GateItem, GateSummary, outcome_of
from counterpose_core.contract.runs import Run
from counterpose_core.types import FINAL_RUN_STATES, Cost
from counterpose_gateway.methods.gate.errors import judge, unanswered_pairs, verdict
from counterpose_gateway.methods.gate.plan import untested_classes
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.summaries.accounting import count_reasons

SHOWN_EXAMPLES = 12


def summarize(run: Run, items: Iterable[GateItem]) -> GateSummary:
    """Sum up the run so far; a run that did not complete has no outcome but ``error``."""
    config, listed = recorded_config(GateConfig, run), list(items)
    results = [item.result for item in listed if item.result is not None]
    if config.regression_set.untested is None:
        # A gate of an earlier version.
        pairs = [(item.instruction, item.label) for item in listed]
        untested = untested_classes((each.change, label, each.unit) for each, label in pairs if each)
        told = config.regression_set.model_copy(update={"untested": untested})
        config = config.model_copy(update={"regression_set": told})
    judged = judge(config, listed, complete=run.state == "completed")
    outcome = outcome_of(judged.cells) if run.state in FINAL_RUN_STATES else None
    return GateSummary(
        run_id=run.id,
        config=config,
        request_counts=run.request_counts,
        outcome=outcome,
        verdict=verdict(config, outcome, judged),
        cells=judged.cells,
        tested=judged.tested,
        examples=_examples(config, listed),
        unanswered=dict(unanswered_pairs(results)),
        failed_codes=count_reasons(item.code for item in listed if item.state == "failed"),
        cost=sum((each.cost for each in results), Cost()),
    )


def _examples(config: GateConfig, items: Sequence[GateItem]) -> list[GateExample]:
    """Pairs on which a candidate alone errs after the change, one of each source image at first."""
    found = [
        example
        for item in items
        for candidate in config.request.classifiers
        if (example := _example(item, candidate, config.incumbent)) is not None
    ]
    seen: dict[tuple[str, str], int] = {}
    order: list[tuple[int, int]] = []
    for place, each in enumerate(found):
        key = (each.change, each.source)
        order.append((seen.get(key, 0), place))
        seen[key] = seen.get(key, 0) + 1
    return [found[place] for _, place in sorted(order)[:SHOWN_EXAMPLES]]


def _example(item: GateItem, candidate: str, incumbent: str) -> GateExample | None:
    told, result = item.instruction, item.result
    if told is None or result is None:
        return None
    before, after = result.original_predictions, result.predictions
    if not ({candidate, incumbent} <= after.keys() and candidate in before):
        return None
    lost = before[candidate].right and not after[candidate].right
    if not lost or not after[incumbent].right:
        return None
    return GateExample(
        item=item.id,
        classifier=candidate,
        change=told.change,
        label=item.label,
        source=told.control or item.source_image,
        image=told.image,
        candidate=after[candidate].answer,
        incumbent=after[incumbent].answer,
    )
