"""The rows of docs/papers.md, and the column of tests that the markers give them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evaluation.evidence.markers import Covered
from evaluation.paths import ROOT

PAGE = ROOT / "docs/papers.md"
COLUMNS = ["id", "what", "value", "status", "command", "test"]
LINE = re.compile(r"^\|(?P<cells>.*)\|$")


@dataclass(frozen=True)
class Row:
    """One row of the tables; ``test`` is generated."""

    id: str
    what: str
    value: str
    status: str
    command: str
    test: str

    @property
    def tests(self) -> list[str]:
        """The pytest ids that the row names."""
        return re.findall(r"`([\w/.-]+\.py::\w+)`", self.test)


def rows(file: Path = PAGE) -> list[Row]:
    """Return the rows of all tables that have the six columns."""
    return [Row(*cells) for _, cells in _table_lines(file.read_text(encoding="utf-8"))]


def page(text: str, covered: Covered) -> str:
    """Return the page with its test column from the markers; nothing else changes."""
    lines = text.splitlines()
    for at, cells in _table_lines(text):
        before = lines[at].rstrip().removesuffix("|").rstrip()
        column = before[: before.rindex(" | ")]
        lines[at] = f"{column} | {test_cell(cells[0], covered)} |"
    return "\n".join(lines) + "\n"


def test_cell(row: str, covered: Covered) -> str:
    """Return the tests of a row, or a dash."""
    return ", ".join(f"`{test}`" for test in covered.get(row, ())) or "-"


def _table_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    inside = False
    for at, line in enumerate(text.splitlines()):
        found = LINE.match(line.strip())
        cells = [cell.strip() for cell in found["cells"].split("|")] if found else []
        if not cells:
            inside = False
        elif cells == COLUMNS:
            inside = True
        elif inside and not set(line) <= set("|- "):
            yield at, cells
