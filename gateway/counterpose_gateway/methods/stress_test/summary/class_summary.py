"""Yield and accuracy of each class (LANCE, figures 7 and 8)."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.contract.stress_test_figures import ClassFigures
from counterpose_core.contract.stress_tests import ClassSummary
from counterpose_core.statistics.coded import Flags
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.columns.columns import total
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence, hardest


def summarize_classes(
    columns: ItemColumns, seen: Sequence[Evidence], classes: Sequence[str], estimator: LanceEstimator
) -> dict[str, ClassSummary]:
    """Sum up every class that has a planned edit of the screen, in the order of ``classes``."""
    edits = columns.screened & columns.of("kind", "edit")
    planned = {name: edits & columns.of("label", name) for name in classes}
    return {
        name: _summarize(name, columns, edits_of_class, seen, estimator)
        for name, edits_of_class in planned.items()
        if edits_of_class.any()
    }


def _summarize(
    name: str, columns: ItemColumns, edits: Flags, seen: Sequence[Evidence], estimator: LanceEstimator
) -> ClassSummary:
    decided = edits & columns.decided
    return ClassSummary(
        planned=total(edits),
        kept=total(edits & columns.done),
        **{"yield": estimator.share_of(f"class/{name}/yield", columns.unit[decided], columns.done[decided])},
        models={evidence.classifier: _figures(name, evidence, estimator) for evidence in seen},
        example_item=hardest(evidence.edits.of("label", name) for evidence in seen),
    )


def _figures(name: str, seen: Evidence, estimator: LanceEstimator) -> ClassFigures:
    """The class's part of the drops table, over the same sources before and after."""
    edits = seen.paired(seen.edits.of("label", name))
    control = seen.paired(seen.reconstructions.of("label", name))
    figure = f"class/{name}/{seen.classifier}"
    return ClassFigures(
        original=estimator.hit_rates(f"{figure}/original", control, control.hits_before).rate,
        counterfactual=estimator.hit_rates(f"{figure}/counterfactual", edits, edits.hits_after).rate,
        delta_p=estimator.mean_of(f"{figure}/delta_p", edits.unit, edits.delta_p),
        n_images=len(edits),
        n_sources=edits.n_sources,
    )
