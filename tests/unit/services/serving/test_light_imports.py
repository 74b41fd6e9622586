"""The imports of deployments and of the launcher: Ray reads both on nodes without torch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import counterpose_services
from counterpose_services.settings import SERVICES

ROOT = Path(counterpose_services.__file__).parents[1]
OWN = ("counterpose_core", "counterpose_http", "counterpose_processes", "counterpose_services")
HEAVY = {
    "torch",
    "torchvision",
    "transformers",
    "diffusers",
    "timm",
    "open_clip",
    "peft",
    "counterpose_miniature",
}
LIGHT_DOORS = [f"counterpose_services.{name}.deployment" for name in SERVICES] + [
    "counterpose_services.serving.launcher"
]


def file_of(module: str) -> Path | None:
    """Find the file without importing anything, as the import system would import the packages above."""
    place = ROOT.joinpath(*module.split("."))
    found = [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
    return found[0] if found else None


@cache
def imported(module: str) -> frozenset[str]:
    """Names that ``module`` imports at its top level, not within functions."""
    file = file_of(module)
    assert file is not None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(name for statement in tree.body for name in _named(statement))


def _named(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom) and statement.module is not None:
        yield statement.module
        yield from (f"{statement.module}.{alias.name}" for alias in statement.names)
    elif isinstance(statement, ast.Try):
        yield from (name for inner in statement.body for name in _named(inner))


def reached(door: str) -> set[str]:
    """Every module of ours, and every top-level package of others, that importing ``door`` imports."""
    seen: set[str] = set()
    ahead = [door]
    while ahead:
        name = ahead.pop()
        top = name.partition(".")[0]
        if name in seen or (top in OWN and file_of(name) is None):
            continue
        seen.add(name if top in OWN else top)
        if top in OWN:
            ahead += imported(name)
    return seen


@pytest.mark.parametrize("door", LIGHT_DOORS)
def test_light_modules_import_no_model_library(door: str) -> None:
    found = reached(door)
    assert "counterpose_services.settings" in found
    assert not found & HEAVY


def test_an_engine_is_recognised_as_heavy() -> None:
    assert "torch" in reached("counterpose_services.captioner.engine")


def test_light_modules_import_only_allowed_libraries() -> None:
    assert {name for name in reached(LIGHT_DOORS[0]) if not name.startswith(OWN)} <= {
        *sys.stdlib_module_names, "fastapi", "starlette", "pydantic", "pydantic_core", "ray", "numpy", "PIL",
        "fsspec", "huggingface_hub", "yaml",
    }  # fmt: skip
