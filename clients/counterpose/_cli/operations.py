"""What operations on images cost several classifiers, side by side."""

from __future__ import annotations

from counterpose._cli.tables import Table
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transforms import OperationFigure


def comparison_text(summary: StressTestSummary) -> str:
    """The verdict on each classifier, and a table of operations by classifiers: state, lost and gained.

    Raises:
        ValueError: the run has no operations.
    """
    found = summary.transforms
    if found is None:
        raise ValueError(f"the run {summary.run_id} has no operations")
    cells = {(each.title, each.classifier): _cell(each) for each in found.figures}
    titles = dict.fromkeys(each.title for each in found.figures)
    rows = [(title, *(cells.get((title, name)) for name in found.controls)) for title in titles]
    table = Table(("operation", *found.controls), rows)
    legend = f"Of {found.images} images: lost (right before, wrong after) and gained, at the hardest level."
    left_out = [f"left out: {name}, as {why}" for name, why in found.left_out.items()]
    return "\n".join([summary.verdict, "", str(table), legend, *left_out])


def _cell(figure: OperationFigure) -> str:
    hardest = figure.levels[-1]
    return f"{figure.state.replace('-', ' ')}: -{hardest.lost} +{hardest.gained}"
