"""Which test covers which id: reads ``@pytest.mark.paper`` and ``@pytest.mark.fault`` from the source."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evaluation.paths import ROOT

TESTS = (ROOT / "tests", ROOT / "evaluation/tests")
Kind = Literal["paper", "fault"]
KINDS: tuple[Kind, ...] = ("paper", "fault")

Covered = Mapping[str, Sequence[str]]
"""Id to the pytest ids of the tests that cover it, sorted."""


@dataclass(frozen=True)
class Markers:
    """The covered ids of both kinds."""

    paper: Covered
    fault: Covered


def markers(folders: Sequence[Path] = TESTS, root: Path = ROOT) -> Markers:
    """Collect the markers of all test files below ``folders``.

    Raises:
        ValueError: a marker's argument is not a literal string.
    """
    found: dict[Kind, dict[str, set[str]]] = {kind: defaultdict(set) for kind in KINDS}
    for path in sorted(file for folder in folders for file in folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        # Parsing a thousand files takes seconds, and most have no marker.
        if not any(f"pytest.mark.{kind}" in text for kind in KINDS):
            continue
        for function in _functions(ast.parse(text)):
            for kind, marked in _ids(function, path):
                found[kind][marked].add(f"{path.relative_to(root).as_posix()}::{function.name}")
    paper, fault = ({name: sorted(tests) for name, tests in found[kind].items()} for kind in KINDS)
    return Markers(paper, fault)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _ids(function: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> Iterator[tuple[Kind, str]]:
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        for kind in KINDS:
            if ast.unparse(decorator.func) == f"pytest.mark.{kind}":
                for argument in decorator.args:
                    yield kind, _literal(argument, f"{path}:{decorator.lineno}")


def _literal(argument: ast.expr, place: str) -> str:
    if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
        raise ValueError(f"{place}: {ast.unparse(argument)!r} is not a literal id; write it as a string")
    return argument.value
