"""The product's old name, Faultline, belongs to two other projects: it stands nowhere but where it must."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OLD_NAME = "faultline"
ALLOWED = {
    "CHANGELOG.md": "says once what the product was called",
    "clients/counterpose/_stack/state_folder.py": "refuses a state folder of the old name",
    "tests/unit/clients/test_old_state_folder.py": "tests that refusal",
    "evaluation/product_speed/earlier.py": "runs an earlier commit",
    "evaluation/product_speed/contestant.py": "runs an earlier commit",
    "evaluation/validity/agreement.py": "holds a string that enters a seed",
    "tests/unit/docs/test_old_name.py": "is this test",
}
RESULTS = "evaluation/results/"
"""Recorded results name what they measured."""


def tracked() -> list[str]:
    """Paths of the tracked files; of all files, where the tree is no repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a repository: what belongs to the product is not known")
    return [path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()]


def test_the_old_name_stands_nowhere_else() -> None:
    named = {
        path
        for path in tracked()
        if OLD_NAME in path.lower() or OLD_NAME.encode() in (ROOT / path).read_bytes().lower()
    }
    assert {path for path in named if not path.startswith(RESULTS)} - set(ALLOWED) == set()


@pytest.mark.parametrize("path", sorted(ALLOWED))
def test_an_exception_that_needs_none_is_struck(path: str) -> None:
    assert OLD_NAME in (ROOT / path).read_text(encoding="utf-8").lower(), path


def test_the_changelog_says_it_once() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").lower()
    assert text.count(OLD_NAME) == 1
