"""Served code does not import the oracle, the validation or a planted bug."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from evaluation.paths import ROOT

PACKAGES = (
    "clients/counterpose",
    "gateway/counterpose_gateway",
    "services/counterpose_core",
    "services/counterpose_services",
    "services/counterpose_miniature",
    "services/counterpose_photographs",
)
TRAINING = ROOT / "services/counterpose_miniature/training"
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
SERVED = [path for path in MODULES if TRAINING not in path.parents]
DATA = [
    path
    for package in PACKAGES
    for suffix in ("toml", "yaml", "html", "jinja")
    for path in (ROOT / package).rglob(f"*.{suffix}")
]
BUG_FOLDERS = ("suite/bugs", "evaluation/bugs", '"bugs"', "'bugs'", "read_bugs", "training.bugs")


# Read as lines, not as syntax trees: parsing three hundred modules takes seconds.
IMPORT = re.compile(r"^ *(?:from ([\w.]+) import|import ([\w., ]+))", flags=re.MULTILINE)


@cache
def imported(path: Path) -> frozenset[str]:
    """Every module that a file imports, at its top or inside a function."""
    found = IMPORT.findall(path.read_text(encoding="utf-8"))
    return frozenset(name.strip().partition(" ")[0] for pair in found for name in ",".join(pair).split(","))


def tops(path: Path) -> set[str]:
    """The packages that a file imports from."""
    return {name.partition(".")[0] for name in imported(path)}


def test_no_package_imports_its_evaluation() -> None:
    assert [str(path) for path in MODULES if "evaluation" in tops(path)] == []


def test_no_file_outside_training_reads_a_bug_file() -> None:
    told = {path: path.read_text(encoding="utf-8") for path in [*SERVED, *DATA]}
    assert [str(path) for path, text in told.items() if any(word in text for word in BUG_FOLDERS)] == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from evaluation.oracle import Oracle", "evaluation"),
        ("    import evaluation.oracle.judge", "evaluation"),
        ("import json, evaluation.oracle as judge", "evaluation"),
    ],
)
def test_an_import_is_detected(tmp_path: Path, line: str, name: str) -> None:
    (tmp_path / "module.py").write_text(f"x = 1\n{line}\n", encoding="utf-8")
    assert name in tops(tmp_path / "module.py")


def test_training_reads_bug_files() -> None:
    texts = [path.read_text(encoding="utf-8") for path in TRAINING.glob("*.py")]
    assert any("read_bugs" in text for text in texts)


def test_served_code_does_not_import_training() -> None:
    served = [path for path in SERVED if "counterpose_miniature" not in path.parts]
    assert len(served) > 100
    found = [
        str(path)
        for path in served
        if any(name.startswith("counterpose_miniature.training") for name in imported(path))
    ]
    assert found == []


def test_the_oracle_does_not_import_served_code() -> None:
    served = {"counterpose", "counterpose_gateway", "counterpose_services"}
    found = {path.name: tops(path) & served for path in (ROOT / "evaluation/oracle").glob("*.py")}
    assert found
    assert not any(found.values())
