"""Yield and accuracy of each class (LANCE, figures 7 and 8)."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.runs import Item
from faultline_core.contract.stress_tests import ClassFigures, ClassSummary
from faultline_gateway.methods.stress_test.summary.estimates import LanceEstimator
from faultline_gateway.methods.stress_test.summary.evidence import Evidence, hardest


def summarize_classes(
    items: Sequence[Item], seen: Sequence[Evidence], classes: Sequence[str], estimator: LanceEstimator
) -> dict[str, ClassSummary]:
    """Sum up every class that has a planned edit, in the order of ``classes``."""
    edits = [item for item in items if item.kind == "edit"]
    planned = {name: [item for item in edits if item.label == name] for name in classes}
    return {
        name: _summarize(name, edits_of_class, seen, estimator)
        for name, edits_of_class in planned.items()
        if edits_of_class
    }


def _summarize(
    name: str, edits: Sequence[Item], seen: Sequence[Evidence], estimator: LanceEstimator
) -> ClassSummary:
    kept = [item for item in edits if item.state == "done"]
    decided = [item for item in edits if item.state in ("done", "filtered")]
    share = estimator.share(
        f"class/{name}/yield", ((estimator.unit(item), item.state == "done") for item in decided)
    )
    return ClassSummary(
        planned=len(edits),
        kept=len(kept),
        **{"yield": share},
        models={evidence.classifier: _figures(name, evidence, estimator) for evidence in seen},
        example_item=hardest(shot for evidence in seen for shot in evidence.edits if shot.item.label == name),
    )


def _figures(name: str, seen: Evidence, estimator: LanceEstimator) -> ClassFigures:
    """The class's part of the drops table, over the same sources before and after."""
    edits = [shot for shot in seen.paired(seen.edits) if shot.item.label == name]
    control = [shot for shot in seen.paired(seen.reconstructions) if shot.item.label == name]
    figure = f"class/{name}/{seen.classifier}"
    return ClassFigures(
        original=estimator.accuracy(
            f"{figure}/original", [(shot.unit, shot.before.rank_true) for shot in control]
        ).acc1,
        counterfactual=estimator.accuracy(
            f"{figure}/counterfactual", [(shot.unit, shot.after.rank_true) for shot in edits]
        ).acc1,
        delta_p=estimator.mean(f"{figure}/delta_p", ((shot.unit, shot.delta_p) for shot in edits)),
        n_images=len(edits),
        n_sources=len({shot.source for shot in edits}),
    )
