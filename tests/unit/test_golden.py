"""Golden files hold floats to the promised tolerances and all else exactly, and mark their tests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden import Golden

ROOT = Path(__file__).parents[2]
KNOWN: dict[str, Any] = {
    "verdict": "breaks", "holds": True, "n": 20,
    "slope": {"estimate": 250.0, "low": None}, "rates": [0.25, 0.0],
}  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"slope": {"estimate": 250.0 * (1 + 0.9e-6), "low": None}},
        {"rates": [0.25 - 0.9e-5, 0.9e-5]},
        {"config": {"seed": 1}},
    ],
    ids=["a fit", "numbers of 32 bits", "a field that is not compared"],
)
def test_what_another_processor_may_change_is_equal(changed: dict[str, Any], golden: Golden) -> None:
    golden.compare(KNOWN | changed, KNOWN, without=("config",))


@pytest.mark.parametrize(
    "changed",
    [
        {"slope": {"estimate": 250.0 * (1 + 1.2e-6), "low": None}},
        {"slope": {"estimate": 250.0, "low": 0.0}},
        {"slope": {"estimate": 250.0}},
        {"rates": [0.25 + 1.2e-5, 0.0]},
        {"rates": [0.25]},
        {"verdict": "holds"},
        {"n": 21},
        {"n": 20.000001},
        {"holds": False},
        {"config": {"seed": 1}},
    ],
    ids=str,
)
def test_anything_else_differs(changed: dict[str, Any], golden: Golden) -> None:
    with pytest.raises(AssertionError):
        golden.compare(KNOWN | changed, KNOWN)


def test_arrays_compare_like_numbers(golden: Golden) -> None:
    floats, whole = np.array([[1.0, 0.0]]), np.array([1, 2])
    golden.compare(floats + 0.9e-5, floats)
    golden.compare(whole.copy(), whole)
    for found, known in [
        (floats + 1.2e-5, floats),
        (floats[0], floats),
        (whole + 1, whole),
        (whole * 1.0, whole),
    ]:
        with pytest.raises(AssertionError):
            golden.compare(found, known)


def test_a_golden_file_marks_its_test(request: pytest.FixtureRequest, golden: Golden) -> None:
    assert golden.folder == Path(__file__).parent
    assert request.node.get_closest_marker("floats")


def test_a_test_without_golden_files_has_no_mark(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("floats") is None


def test_make_floats_runs_every_test_that_imports_golden() -> None:
    """It finds the files by their text: to collect all tests takes half a minute, four times."""
    done = subprocess.run(
        ["make", "--dry-run", "floats-portable"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    folders = (ROOT / "tests", ROOT / "evaluation/tests")
    files = [file for folder in folders for file in folder.rglob("test_*.py")]
    users = {str(file.relative_to(ROOT)) for file in files if "from golden import" in file.read_text("utf-8")}
    assert str(Path(__file__).relative_to(ROOT)) in users
    assert users <= set(done.stdout.split())
