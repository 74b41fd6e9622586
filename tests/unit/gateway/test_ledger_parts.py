"""The ledger is composed: its parts have no base, few verbs, and nobody else repeats their signatures."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import cast

import counterpose_gateway
from counterpose_gateway import ledger
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database.session import Session

MOST_VERBS = 20
MOST_ARROWS = 170
"""Imports between modules of the ledger, those of types too; there were 255 when it was made of mixins."""
GATEWAY = Path(counterpose_gateway.__file__).parent
LEDGER = Path(ledger.__file__).parent


def parts() -> dict[str, type]:
    """The classes of the parts by their names."""
    composed = object.__new__(Ledger)
    composed._compose(cast(Session, None))
    return {name: type(part) for name, part in vars(composed).items() if not name.startswith("_")}


def verbs(part: type) -> list[str]:
    """The public methods and properties of a part."""
    return [name for name in dir(part) if not name.startswith("_")]


@cache
def signatures(part: type) -> set[tuple[str, ...]]:
    """The verbs of a part with the names of what they are given."""
    calls = inspect.getmembers(part, inspect.isfunction)
    return {(name, *list(inspect.signature(call).parameters)[1:]) for name, call in calls if name[0] != "_"}


PARTS = parts()


def repeating(source: str) -> Iterator[str]:
    """The classes of a module that repeat a part: Protocols one signature of it, others two."""
    known = {name: signatures(part) for name, part in PARTS.items()}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        # What is awaited stands before a part, as the worker's shared ledger does; it is none.
        own = {
            (each.name, *(given.arg for given in (*each.args.args[1:], *each.args.kwonlyargs)))
            for each in node.body
            if isinstance(each, ast.FunctionDef) and not each.decorator_list
        }
        few = 1 if any("Protocol" in ast.unparse(base) for base in node.bases) else 2
        yield from (
            f"{node.name} repeats {name}" for name, theirs in known.items() if len(own & theirs) >= few
        )


def arrows() -> set[tuple[str, str]]:
    """Which modules of the ledger import which."""
    files = [path for path in LEDGER.rglob("*.py") if "migrations" not in path.parts]
    names = {
        ".".join(path.relative_to(GATEWAY.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in files
    }
    found = set[tuple[str, str]]()
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                wanted = (f"{node.module}.{alias.name}" for alias in node.names)
                found |= {(name, each if each in names else node.module) for each in wanted}
    return {(name, other) for name, other in found if other in names and other != name}


def test_a_part_has_no_base_and_at_most_twenty_verbs() -> None:
    assert len(PARTS) > 10
    for name, part in PARTS.items():
        assert part.__bases__ == (object,), name
        assert len(verbs(part)) <= MOST_VERBS, name
    assert Ledger.__bases__ == (object,)
    assert len(verbs(Ledger)) <= MOST_VERBS


def test_nobody_repeats_a_part() -> None:
    others = [path for path in GATEWAY.rglob("*.py") if LEDGER not in path.parents]
    assert [found for path in others for found in repeating(path.read_text(encoding="utf-8"))] == []


def test_a_class_that_repeats_a_part_is_found() -> None:
    holding = "class Blobs(Protocol):\n    def holds(self, ref: str) -> bool: ...\n"
    assert list(repeating(holding)) == ["Blobs repeats blobs"]
    lease = "    def lease(self, clusters: object, seconds: float) -> None: ...\n"
    put_off = "    def put_off(self, leased: object, seconds: float, message: str) -> None: ...\n"
    assert list(repeating(f"class Looks:\n{lease}{put_off}")) == ["Looks repeats jobs"]
    assert list(repeating(f"class Looks:\n{lease}")) == []


def test_the_modules_of_the_ledger_are_tied_by_few_arrows() -> None:
    assert len(arrows()) <= MOST_ARROWS
