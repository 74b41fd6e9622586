"""Yield and accuracy of each class (LANCE, figures 7 and 8)."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.runs import Item
from faultline_core.contract.stress_tests import ClassFigures, ClassSummary
from faultline_gateway.workflows.estimates import Estimator
from faultline_gateway.workflows.evidence import Evidence, hardest


def summarize_classes(
    items: Sequence[Item], seen: Sequence[Evidence], classes: Sequence[str], estimator: Estimator
) -> dict[str, ClassSummary]:
    """Sum up every class that has a planned edit, in the order of ``classes``."""
    edits = [item for item in items if item.kind == "edit"]
    planned = {name: [item for item in edits if item.label == name] for name in classes}
    return {name: _summarize(name, found, seen, estimator) for name, found in planned.items() if found}


def _summarize(
    name: str, edits: Sequence[Item], seen: Sequence[Evidence], estimator: Estimator
) -> ClassSummary:
    kept = [item for item in edits if item.state == "done"]
    decided = [item for item in edits if item.state in ("done", "filtered")]
    share = estimator.share(
        f"class/{name}/yield", ((item.source_id, item.state == "done") for item in decided)
    )
    return ClassSummary(
        planned=len(edits),
        kept=len(kept),
        **{"yield": share},
        models={each.classifier: _figures(name, each, estimator) for each in seen},
        example_item=hardest(shot for each in seen for shot in each.edits if shot.item.label == name),
    )


def _figures(name: str, seen: Evidence, estimator: Estimator) -> ClassFigures:
    """The class's part of the drops table: the same sources before and after."""
    edits = [shot for shot in seen.paired(seen.edits) if shot.item.label == name]
    control = [shot for shot in seen.paired(seen.reconstructions) if shot.item.label == name]
    figure = f"class/{name}/{seen.classifier}"
    return ClassFigures(
        original=estimator.accuracy(
            f"{figure}/original", [(shot.source, shot.before.rank_true) for shot in control]
        ).acc1,
        counterfactual=estimator.accuracy(
            f"{figure}/counterfactual", [(shot.source, shot.after.rank_true) for shot in edits]
        ).acc1,
        delta_p=estimator.mean(f"{figure}/delta_p", ((shot.source, shot.delta_p) for shot in edits)),
        n_images=len(edits),
        n_sources=len({shot.source for shot in edits}),
    )
