"""The design pages give reasons, and the names on them exist in the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from counterpose_core.contract.base import MAX_BATCH
from counterpose_core.contract.editor import EditRequest, ReconstructRequest
from counterpose_gateway.records.items import MAX_ATTEMPTS

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "design").glob("*.md"))
ROOTS = [ROOT / name for name in ("clients", "gateway", "services")]
PACKAGES = {path.name: path for root in ROOTS for path in root.glob("counterpose*")}
# Read as lines and not as syntax trees: a hundred and fifty modules take seconds to parse.
DEFINED = re.compile(r"^ *(?:async def|def|class) (\w+)|^ *(\w+)(?:: | = )", flags=re.MULTILINE)


def text(page: Path) -> str:
    """A page as one line: where it is wrapped means nothing."""
    return " ".join(page.read_text(encoding="utf-8").split())


@cache
def names_in(module: Path) -> frozenset[str]:
    """Names that a module or its classes define."""
    found = DEFINED.findall(module.read_text(encoding="utf-8"))
    return frozenset(name for pair in found for name in pair if name)


def exists(dotted: str) -> bool:
    """Whether a dotted name is a package, a module or a name in a module."""
    first, *rest = dotted.split(".")
    path = PACKAGES.get(first)
    while path is not None and rest and (path / rest[0]).is_dir():
        path = path / rest.pop(0)
    if path is None or not rest:
        return path is not None
    module = path / f"{rest[0]}.py"
    if module.exists():
        return len(rest) == 1 or rest[1] in names_in(module)
    return any(rest[0] in names_in(each) for each in path.glob("*.py"))


@cache
def all_names() -> frozenset[str]:
    """Every module and every name of the packages."""
    modules = [module for package in PACKAGES.values() for module in package.rglob("*.py")]
    return frozenset(module.stem for module in modules).union(*(names_in(module) for module in modules))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_states_problem_decision_and_reasons_or_limits(page: Path) -> None:
    headings = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings[:2] == ["Problem", "Decision"]
    assert {"Why", "Limits"} & set(headings[2:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_dotted_name_on_a_page_exists_in_the_code(page: Path) -> None:
    named = re.findall(r"`(counterpose\w*(?:\.\w+)*)`", text(page))
    assert [name for name in named if not exists(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_plain_name_on_a_page_exists_in_the_code(page: Path) -> None:
    named = re.findall(r"`([A-Za-z]*_\w+|[A-Z]+[a-z]+\w*)(?:\.\w+)?`", text(page))
    known = all_names()
    foreign = {"POST", "NORMAL"}
    assert [
        name for name in named if name not in known | foreign and not name.startswith("counterpose")
    ] == []


@pytest.mark.parametrize(
    "name", ["counterpose_gateway.nowhere", "counterpose_services.batching.batcher.Nobody", "counterpose_x"]
)
def test_a_name_missing_from_the_code_is_detected(name: str) -> None:
    assert not exists(name)


def test_the_numbers_on_batching_match_the_contract() -> None:
    page = text(ROOT / "docs/design/batching.md")
    limits = [model.model_fields["items"].metadata for model in (EditRequest, ReconstructRequest)]
    (edits,) = {limit.max_length for found in limits for limit in found if hasattr(limit, "max_length")}
    assert f"up to {MAX_BATCH} items (`MAX_BATCH`; {edits} for" in page


def test_the_number_of_attempts_matches_the_ledger() -> None:
    words = {2: "two", 3: "three", 4: "four"}
    assert f"tried at most {words[MAX_ATTEMPTS]} times" in text(ROOT / "docs/design/ledger.md")
