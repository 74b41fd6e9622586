"""The pairs of a stress test that a gate classifies again: kept counterfactuals and their source images."""

from __future__ import annotations

from collections.abc import Iterator

from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import InvalidRequest
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_gateway.methods.stress_test.transforms.pairs import operation_pairs
from counterpose_gateway.methods.stress_test.transforms.process import OPERATIONS
from counterpose_gateway.runs.context import RecordedRuns
from counterpose_gateway.runs.recorded import recorded_config

_COUNTERFACTUALS = ("edit", "intervention", "confirmation")
"""LANCE-R's random edits are a baseline: they need not change one thing only."""


def counterfactual_pairs(run: Run, context: RecordedRuns) -> Iterator[FrozenPair]:
    """Yield each kept counterfactual with its source image; a group of sources is one unit.

    A confirmation is a change of its own: the screen chose it because it hurts the classifiers of this run.
    """
    config = recorded_config(StressTestConfig, run)
    for item in context.ledger.items.of(run.id, Item):
        if config.transforms is not None and item.kind == OPERATIONS:
            if config.transforms.is_adaptive:
                # Which levels an image has was chosen by this run's classifiers.
                raise InvalidRequest(
                    f"run {run.id!r} asked few levels of most images, those near which its classifiers fail; "
                    "freeze a run with severity 'grid', or without severity"
                )
            yield from operation_pairs([item], config.transforms, config.groups)
        if item.state == "done" and item.result is not None and item.kind in _COUNTERFACTUALS:
            yield FrozenPair(
                change=_change(config, item),
                label=item.label,
                unit=config.groups.get(item.item_group, item.item_group),
                source=item.source_image,
                image=item.result.image,
                labels=tuple(item.labels or ()),
            )


def _change(config: StressTestConfig, item: Item) -> str:
    if item.kind == "intervention":
        chosen = config.request.interventions[item.slot]
        return Intervention(removed=chosen.removed, added=chosen.added).in_words()
    return item.kind if item.kind == "confirmation" else item.edit_type or item.kind
