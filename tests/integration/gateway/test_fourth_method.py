"""A synthetic fourth method in a copy of the packages: which files change, and whether it works."""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("gateway/counterpose_gateway", "services/counterpose_core")
KINDS = "services/counterpose_core/kinds.py"
TABLE = "gateway/counterpose_gateway/methods/__init__.py"
KIND = """
    Kind("confidence-survey", "Confidence survey", "confidence-surveys", ("survey",), "Ask how sure."),
"""
SECONDS = 120


def copied(folder: Path) -> Path:
    """A copy of the packages that a method touches."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def insert(path: Path, after: str, text: str) -> None:
    """Insert ``text`` after the first match of a pattern, which must exist."""
    changed, n = re.subn(after, lambda found: found[0] + text, path.read_text(encoding="utf-8"), count=1)
    assert n == 1, f"{path} has no {after!r}"
    path.write_text(changed, encoding="utf-8")


def add_method(tree: Path) -> None:
    """Add the made-up method to the two tables."""
    insert(tree / KINDS, r"RunKind = Literal\[", '"confidence-survey", ')
    insert(tree / KINDS, r"ItemKind = Literal\[", '"survey", ')
    insert(tree / KINDS, r"_KINDS = \(", KIND)
    imported = "\nfrom fakes.confidence_survey.method import CONFIDENCE_SURVEY"
    insert(tree / TABLE, r"from __future__ import annotations", imported)
    insert(tree / TABLE, r"for method in \(", "CONFIDENCE_SURVEY, ")


def differences(tree: Path) -> tuple[list[str], list[str]]:
    """The files of the copy that were changed, and those that were added."""
    paths = [path.relative_to(tree) for path in tree.rglob("*.py")]
    added = [path for path in paths if not (ROOT / path).exists()]
    changed = [
        path for path in paths
        if path not in added and not filecmp.cmp(tree / path, ROOT / path, shallow=False)
    ]  # fmt: skip
    return sorted(map(str, changed)), sorted(map(str, added))


def tell(tree: Path, folder: Path) -> dict[str, Any]:
    """Run a survey in a process that imports the copy."""
    own = (tree / package.split("/")[0] for package in PACKAGES)
    folders = [*own, ROOT / "services", ROOT / "clients", ROOT / "tests"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-m", "fakes.confidence_survey.story", str(folder)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages with the made-up method."""
    tree = copied(tmp_path_factory.mktemp("packages"))
    add_method(tree)
    return tree


@pytest.fixture(scope="module")
def told(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The gateway's answers about a survey."""
    return tell(tree, tmp_path_factory.mktemp("gateway"))


def test_a_new_method_changes_only_the_two_tables(tree: Path) -> None:
    assert differences(tree) == ([TABLE, KINDS], [])


def test_a_new_method_is_submitted_once_under_its_own_address(told: dict[str, Any]) -> None:
    assert (told["created"], told["same_run"]) == (202, True)
    assert told["location"] == f"/v1/runs/{told['run']['id']}"
    assert told["elsewhere"] == 404


def test_the_worker_processes_a_new_method_to_its_end(told: dict[str, Any]) -> None:
    assert (told["run"]["kind"], told["run"]["state"]) == ("confidence-survey", "completed")
    assert told["run"]["request_counts"]["done"] == told["run"]["request_counts"]["total"] > 0
    assert told["item_kinds"] == ["survey"]


def test_a_new_method_is_read_through_the_routes_of_every_run(told: dict[str, Any]) -> None:
    assert set(told["statuses"].values()) == {200}
    n_done = told["run"]["request_counts"]["done"]
    assert told["summary"]["confidences"]["steady"]["n"] == n_done
    assert told["last_line"]["lines"] == n_done
    assert "steady" in told["report"]
    assert sum(name.endswith(".png") for name in told["exported"]) == n_done
    assert told["exported"][-1] == "README.md"
