"""Pages, tables and numbers in Markdown, in one format for all pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from counterpose_core.types import Estimate

GENERATED = "<!-- Written by `make evidence`; do not edit. -->"
NO_TEST = "no test"
NONE = "-"


def page(title: str, finding: str, body: Iterable[str], how: Sequence[str]) -> str:
    """Return a page: one sentence of finding, the tables, and how they were measured."""
    lines = [f"# {title}", "", GENERATED, "", finding, "", *body, "", "## How this was measured", "", *how]
    return "\n".join(lines) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def test_ids(tests: Sequence[str]) -> str:
    """Return the pytest ids of tests, one a line of the cell."""
    return "<br>".join(f"`{test}`" for test in tests) or NO_TEST


def figure(estimate: Estimate | None, digits: int = 3) -> str:
    """Return an estimate with its 95 % interval."""
    if estimate is None or estimate.estimate is None:
        return NONE
    middle = f"{estimate.estimate:.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return middle
    return f"{middle} ({estimate.low:.{digits}f} to {estimate.high:.{digits}f})"


def size(estimate: Estimate | None) -> str:
    """Return how many cases an estimate stands on."""
    return NONE if estimate is None else f"{estimate.n:,}"


def cells(estimate: Estimate | None, digits: int = 3) -> tuple[str, str]:
    """Return the two cells of an estimate: with its interval, and its n."""
    return figure(estimate, digits), size(estimate)
