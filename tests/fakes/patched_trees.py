"""A clean working tree of HEAD with a patch, and what a program of that patch saw in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def git(*words: str, folder: Path = ROOT) -> str:
    """What git prints."""
    ended = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@contextmanager
def patched_tree(patch: Path, folder: Path) -> Iterator[Path]:
    """Make such a tree in a new folder, and delete it."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git")
    git("worktree", "add", "--detach", str(folder), "HEAD")
    try:
        git("apply", "--whitespace=error", str(patch), folder=folder)
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))


def touched(tree: Path) -> list[str]:
    """The files of HEAD that the patch changes; it may only change files and add some."""
    states = [line.split(maxsplit=1) for line in git("status", "--porcelain", folder=tree).splitlines()]
    assert {state for state, _ in states} == {"M", "??"}
    return [name for state, name in states if state == "M"]


def python(tree: Path, script: str, *words: str, warnings: Sequence[str] = ()) -> None:
    """Run a script of the tree, whose packages it imports."""
    path = os.pathsep.join(str(tree / part) for part in ("", "clients", "gateway", "services", "tests"))
    ended = subprocess.run(
        [sys.executable, *warnings, str(tree / script), *words],
        cwd=tree, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


def seen_by(tree: Path, script: str, folder: Path, *, warnings: Sequence[str]) -> dict[str, Any]:
    """What a script writes to ``seen.json`` in the folder that it is given."""
    python(tree, script, str(folder), warnings=warnings)
    seen: dict[str, Any] = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    return seen
