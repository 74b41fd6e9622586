"""A gate as Markdown, for the summary of a pipeline or a comment."""

from __future__ import annotations

import re

from counterpose_core.contract.gates import GateCell, GateSummary
from counterpose_core.types import Estimate

SIGNS = {"passed": "✅", "failed": "❌", "inconclusive": "❔", "error": "⚠️", "skipped": "➖"}

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#!|~&])")


def gate_markdown(summary: GateSummary) -> str:
    """Return the verdict, a row for each cell, and what the gate compared."""
    sign = SIGNS[summary.outcome] if summary.outcome else "⏳"
    compared = summary.config.regression_set
    tolerance = f"{100 * summary.config.request.tolerance:g} points"
    rows = "\n".join(map(_row, summary.cells))
    return (
        f"### {sign} {_plain(summary.verdict)}\n\n"
        "| candidate | change | | regression in points (95 %) | p (Holm) | n | left out |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        f"{rows}\n\n"
        f"Incumbent {_plain(summary.config.incumbent)}; {compared.pairs} counterfactuals of "
        f"{compared.sources} source images, run `{compared.baseline}`, digest "
        f"`{compared.digest[:12]}`; at most {tolerance} are allowed. Gate `{summary.run_id}`.\n"
    )


def _row(cell: GateCell) -> str:
    p_adjusted = "" if cell.p_adjusted is None else f"{cell.p_adjusted:.2g}"
    cells = (
        _plain(cell.classifier), _plain(cell.name), f"{SIGNS[cell.state]} {cell.state}",
        points(cell.regression), p_adjusted, str(cell.regression.n), _left_out(cell),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def points(estimate: Estimate) -> str:
    """Return an estimate in percentage points with its interval."""
    if estimate.estimate is None or estimate.low is None or estimate.high is None:
        return "-"
    return f"{100 * estimate.estimate:+.1f} [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}]"


def _left_out(cell: GateCell) -> str:
    return f"{cell.left_out} of {cell.pairs} ({100 * cell.share_left_out:.0f} %)" if cell.left_out else "0"


def _plain(text: str) -> str:
    # A name may hold what Markdown reads as a table's edge, a link or HTML.
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
