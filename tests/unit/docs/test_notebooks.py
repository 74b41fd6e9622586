"""Notebooks of the documentation: short, valid, and without what an execution left behind."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "docs").rglob("*.ipynb"))
MOST_CELLS = 12


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_holds_no_outputs(notebook: Path) -> None:
    content = nbformat.read(notebook, as_version=4)
    nbformat.validate(content)
    assert len(content.cells) <= MOST_CELLS
    code = [cell for cell in content.cells if cell.cell_type == "code"]
    assert [cell.id for cell in code if cell.outputs or cell.execution_count is not None] == []
