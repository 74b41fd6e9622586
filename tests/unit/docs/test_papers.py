"""docs/papers.md: ids are unique, and every row marked done has a command that exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from counterpose._cli.main import COMMANDS
from evaluation.evidence.papers import rows

ROOT = Path(__file__).parents[3]
SOURCE_ROOTS = ("clients", "gateway", "services")
NUMBERED = {
    "LANCE": {"EQ": 3, "F": 13, "T": 6},
    "DI": {"T": 1},
    "BUGS": {"EQ": 2, "F": 5, "T": 2},
}
"""How many equations, figures and tables each paper numbers, where every one must have a row."""


@cache
def make_verbs() -> set[str]:
    """Targets of the Makefile that say what they do."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*## ", text, flags=re.MULTILINE))


@cache
def cli_verbs() -> set[str]:
    """Commands of ``counterpose``."""
    return {name for panel in COMMANDS.values() for name in panel}


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
    """Whether ``make <verb>``, ``counterpose <verb>`` or ``python -m <module>`` can be run."""
    known = {"make": make_verbs, "counterpose": cli_verbs, "python -m": runnable_modules}
    match = re.match(r"`(make|counterpose|python -m) ([\w.-]+)[^`]*`$", command)
    return match is not None and match.group(2) in known[match.group(1)]()


def test_every_row_of_the_table_has_all_its_cells() -> None:
    assert len(rows()) > 300
    assert all(row.id and row.what and row.status and row.command and row.test for row in rows())


def test_ids_are_unique_and_name_their_paper() -> None:
    ids = [row.id for row in rows()]
    assert sorted({known for known in ids if ids.count(known) > 1}) == []
    assert [known for known in ids if not re.fullmatch(r"(LANCE|DI|BUGS)-[\w.-]+", known)] == []


def test_a_status_is_done_later_or_not_with_a_reason() -> None:
    legal = re.compile(r"done|later|not, because \w.{10,}")
    assert [row.id for row in rows() if not legal.fullmatch(row.status)] == []


def test_only_rows_marked_done_name_a_command() -> None:
    assert [row.id for row in rows() if (row.status == "done") is (row.command == "-")] == []


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
    "command", ["`make nonsense`", "`counterpose nonsense`", "`python -m nonsense`", "run"]
)
def test_a_missing_command_is_detected(command: str) -> None:
    assert not command_exists(command)


@pytest.mark.parametrize("command", ["`make demo`", "`counterpose stress-test X`"])
def test_an_existing_command_is_recognised(command: str) -> None:
    assert command_exists(command)
