"""The table of methods: every run kind has one, with the same entry points and routes without logic."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from counterpose_core.kinds import KINDS, ItemKind, Kind, RunKind
from counterpose_gateway import methods, routes
from counterpose_gateway.methods import METHODS

PACKAGES = Path(methods.__file__).parent
ROUTES = Path(routes.__file__).parent
ROOT = PACKAGES.parents[2]
DOORS = ("plan", "process", "summary", "report")
BRANCHES = ast.If | ast.IfExp | ast.For | ast.While | ast.Try | ast.Match
MOST_LINES = 15


def package_of(kind: str) -> Path:
    """The package of a method."""
    return PACKAGES / kind.replace("-", "_")


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_the_two_tables_of_kinds_are_equal() -> None:
    assert list(METHODS) == list(KINDS) == list(get_args(RunKind))
    assert [method.kind for method in METHODS.values()] == [kind.name for kind in KINDS.values()]


def test_the_kinds_of_items_are_those_of_the_runs() -> None:
    assert {item for kind in KINDS.values() for item in kind.items} == set(get_args(ItemKind))
    assert all(set(method.live) <= set(KINDS[method.kind].items) for method in METHODS.values())


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_has_its_name_in_words_and_in_addresses(kind: Kind) -> None:
    assert kind.title.lower().replace(" ", "-") == kind.name
    assert kind.path.startswith(kind.name[:-1])


def test_no_other_module_lists_the_kinds() -> None:
    names = {word: kind.name for kind in KINDS.values() for word in (kind.name, kind.path)}
    listing = {
        path.relative_to(ROOT).as_posix()
        for part in ("clients", "gateway", "services")
        for path in (ROOT / part).rglob("*.py")
        if len({names[word] for word in _words(path) if word in names}) > len(KINDS) // 2
    }
    # A job's body has a type for each run that may be one.
    assert listing == {"services/counterpose_core/kinds.py", "services/counterpose_core/contract/jobs.py"}


def _words(path: Path) -> Iterator[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("kind", KINDS)
def test_a_method_reaches_another_process_by_the_names_of_its_functions(kind: RunKind) -> None:
    assert pickle.loads(pickle.dumps(METHODS[kind])) == METHODS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_summary_says_of_which_kind_it_is(kind: RunKind) -> None:
    assert METHODS[kind].summary.model_fields["kind"].default == kind


def test_every_method_package_is_in_the_table() -> None:
    packages = {path.parent for path in PACKAGES.glob("*/__init__.py")}
    assert packages == {package_of(kind) for kind in METHODS}


@pytest.mark.parametrize("kind", METHODS)
def test_every_method_has_the_same_entry_points(kind: str) -> None:
    package = package_of(kind)
    there = {door for door in DOORS if (package / f"{door}.py").is_file() or (package / door).is_dir()}
    assert there == set(DOORS)
    exports = METHODS[kind].export is not None
    assert exports == (package / "export.py").is_file()


def test_the_routes_of_methods_are_short_and_never_branch() -> None:
    found = list(functions(ROUTES / "methods.py"))
    assert len(found) > len(KINDS)
    assert [function.name for function in found if _has_logic(function)] == []


def _has_logic(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    lines = (function.end_lineno or 0) - function.lineno + 1
    return lines > MOST_LINES or any(isinstance(node, BRANCHES) for node in ast.walk(function))
