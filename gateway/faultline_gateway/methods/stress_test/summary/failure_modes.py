"""How many kept edits look like one of LANCE's failure modes, and which."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.perturber import WordSpan
from faultline_core.contract.runs import Item, ItemResult
from faultline_core.contract.stress_tests import FailureMode
from faultline_core.stress_test.failure_modes import RULES, Answer, KeptEdit, find_failure_modes
from faultline_gateway.methods.stress_test.summary.estimates import LanceEstimator
from faultline_gateway.methods.stress_test.summary.evidence import best

MOST_EXAMPLES = 20


def count_failure_modes(items: Sequence[Item], estimator: LanceEstimator) -> dict[str, FailureMode]:
    """Tag the kept edits; the share is of kept edits, with an interval over sources."""
    sources = {item.id: estimator.unit(item) for item in items}
    edits = [edit for item in items for edit in _kept(item)]
    return {
        mode: FailureMode(
            count=len(tagged),
            share=estimator.share(
                f"failure-mode/{mode}", ((sources[edit.item], edit.item in tagged) for edit in edits)
            ),
            rule=RULES[mode],
            example_items=tagged[:MOST_EXAMPLES],
        )
        for mode, tagged in find_failure_modes(edits).items()
    }


def _kept(item: Item) -> list[KeptEdit]:
    result = item.result
    if item.kind != "edit" or item.state != "done" or result is None or item.edit_type is None:
        return []
    return [
        KeptEdit(
            item=item.id,
            object_class=item.label,
            edit_type=item.edit_type,
            caption=result.caption,
            edited_caption=result.edited_caption or result.caption,
            removed=_indices(result.removed),
            added=_indices(result.added),
            fit=result.scores.text_edited - result.scores.text_original if result.scores else None,
            answers=_answers(result),
        )
    ]


def _indices(spans: Sequence[WordSpan]) -> frozenset[int]:
    return frozenset(span.start + offset for span in spans for offset in range(len(span.words)))


def _answers(result: ItemResult) -> dict[str, Answer]:
    before = result.original_predictions
    return {
        classifier: Answer(before[classifier].p_true, after.p_true, best(before[classifier]), best(after))
        for classifier, after in result.predictions.items()
        if classifier in before
    }
