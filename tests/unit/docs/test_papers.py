"""docs/papers.md keeps its word: rows are unique, and what is called done has a command and a test."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from faultline.cli import app

ROOT = Path(__file__).parents[3]
SOURCE_ROOTS = ("clients", "gateway", "services")
COLUMNS = ["id", "what", "value", "status", "command", "test"]
NUMBERED = {
    "LANCE": {"EQ": 3, "F": 13, "T": 6},
    "DI": {"T": 1},
    "BUGS": {"EQ": 2, "F": 5, "T": 2},
}
"""How many equations, figures and tables each paper numbers, where every one must have a row."""


@dataclass(frozen=True)
class Row:
    """One row of the document."""

    id: str
    what: str
    value: str
    status: str
    command: str
    test: str

    @property
    def tests(self) -> list[str]:
        """The test ids it names."""
        return re.findall(r"tests/[\w/.-]+\.py::\w+", self.test)


def cells(line: str) -> list[str]:
    """The cells of one table line."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@cache
def rows() -> list[Row]:
    """All rows of tables that have the six columns."""
    found: list[Row] = []
    inside = False
    for line in (ROOT / "docs/papers.md").read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            inside = False
        elif cells(line) == COLUMNS:
            inside = True
        elif inside and not set(line) <= set("|- "):
            found.append(Row(*cells(line)))
    return found


@cache
def functions_in(file: str) -> frozenset[str]:
    """Names of the test functions that a file defines."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


@cache
def make_verbs() -> set[str]:
    """Targets of the Makefile that say what they do."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*## ", text, flags=re.MULTILINE))


@cache
def cli_verbs() -> set[str]:
    """Commands of ``faultline``."""
    names = (command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands)
    return set(names)


@cache
def runnable_modules() -> set[str]:
    """Modules that ``python -m`` can run."""
    names: set[str] = set()
    for root in SOURCE_ROOTS:
        for path in (ROOT / root).rglob("*.py"):
            parts = path.relative_to(ROOT / root).with_suffix("").parts
            if parts[-1] == "__main__":
                names.add(".".join(parts[:-1]))
            elif '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
                names.add(".".join(parts))
    return names


def command_exists(command: str) -> bool:
    """Whether ``make <verb>``, ``faultline <verb>`` or ``python -m <module>`` can be run."""
    known = {"make": make_verbs, "faultline": cli_verbs, "python -m": runnable_modules}
    match = re.match(r"`(make|faultline|python -m) ([\w.-]+)[^`]*`$", command)
    return match is not None and match.group(2) in known[match.group(1)]()


def test_the_table_was_found_and_each_row_has_its_cells() -> None:
    assert len(rows()) > 300
    assert all(row.id and row.what and row.status and row.command and row.test for row in rows())


def test_ids_are_unique_and_name_their_paper() -> None:
    ids = [row.id for row in rows()]
    assert sorted({known for known in ids if ids.count(known) > 1}) == []
    assert [known for known in ids if not re.fullmatch(r"(LANCE|DI|BUGS)-[\w.-]+", known)] == []


def test_a_status_is_done_later_or_not_with_its_reason() -> None:
    legal = re.compile(r"done|later|not, because \w.{10,}")
    assert [row.id for row in rows() if not legal.fullmatch(row.status)] == []


def test_what_is_done_names_a_command_and_a_test() -> None:
    done = [row for row in rows() if row.status == "done"]
    assert [row.id for row in done if not row.tests or row.command == "-"] == []


def test_what_is_not_done_claims_no_command_and_no_test() -> None:
    open_rows = [row for row in rows() if row.status != "done"]
    assert [row.id for row in open_rows if (row.command, row.test) != ("-", "-")] == []


def test_every_named_test_exists() -> None:
    named = {(row.id, test) for row in rows() for test in row.tests}
    missing = []
    for row, test in sorted(named):
        file, function = test.split("::")
        if not (ROOT / file).is_file() or function not in functions_in(file):
            missing.append(f"{row}: {test}")
    assert missing == []


def test_a_test_cell_holds_test_ids_and_nothing_else() -> None:
    claimed = [row for row in rows() if row.test != "-"]
    assert [row.id for row in claimed if row.test != ", ".join(f"`{test}`" for test in row.tests)] == []


def test_every_named_command_exists() -> None:
    named = [row for row in rows() if row.command != "-"]
    assert [f"{row.id}: {row.command}" for row in named if not command_exists(row.command)] == []


@pytest.mark.parametrize(
    "number",
    [
        f"{paper}-{kind}{index}"
        for paper, kinds in NUMBERED.items()
        for kind, count in kinds.items()
        for index in range(1, count + 1)
    ],
)
def test_every_numbered_equation_figure_and_table_has_a_row(number: str) -> None:
    assert any(row.id.startswith(f"{number}-") for row in rows())


@pytest.mark.parametrize(
    "command", ["`make nonsense`", "`faultline nonsense`", "`python -m nonsense`", "run"]
)
def test_a_command_that_does_not_exist_is_seen(command: str) -> None:
    assert not command_exists(command)


@pytest.mark.parametrize("command", ["`make demo`", "`faultline stress-test --dataset X`"])
def test_a_command_that_exists_is_seen(command: str) -> None:
    assert command_exists(command)
