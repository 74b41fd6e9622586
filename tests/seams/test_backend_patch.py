"""A backend of other abilities is added by a short patch, and a stress test runs with it to its report.

The patch is applied to a clean working tree of HEAD. Its backend paints weather by an instruction, and
neither reconstructs nor takes a seed. It is no part of the product, and no line of the product knows of it.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.pages import text_of
from fakes.patched_trees import ROOT, patched_tree, seen_by, touched

PATCH = Path(__file__).with_name("backend.patch")
PRODUCT = ("clients", "gateway", "services", "suites", "integrations")
BACKEND = "weather.brush"
WARNINGS = ("-W", "error", "-W", "ignore:Using extra keyword arguments on")
"""All are errors, except those of ray's own models on import."""
MOST_TOUCHED = 4
"""Files of the product that a backend may change, besides its own."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A clean working tree of HEAD with the patch."""
    with patched_tree(PATCH, tmp_path_factory.mktemp("seams") / "tree") as folder:
        yield folder


@pytest.fixture(scope="module")
def seen(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the patch's program saw of a stress test, and its report."""
    folder = tmp_path_factory.mktemp("run")
    found = seen_by(tree, "tests/seams/weather_brush_run.py", folder, warnings=WARNINGS)
    return {**found, "report": (folder / "report.html").read_text(encoding="utf-8")}


def results(seen: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [item["result"] for item in seen["items"] if item["kind"] == kind and item["state"] == "done"]


def test_the_patch_changes_few_files_of_the_product(tree: Path) -> None:
    assert 0 < len(touched(tree)) <= MOST_TOUCHED, touched(tree)


def test_no_line_of_the_product_knows_the_backend() -> None:
    searched = subprocess.run(
        ["git", "grep", "-il", BACKEND, "HEAD", "--", *PRODUCT], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (searched.returncode, searched.stdout) == (1, "")


def test_a_stress_test_runs_from_submission_to_report(seen: dict[str, Any]) -> None:
    assert seen["state"] == "completed"
    assert seen["capabilities"] == ["instruction"]
    assert Counter(item["state"] for item in seen["items"]).keys() == {"done"}
    breaks = [finding for finding in seen["summary"]["findings"] if finding["state"] == "breaks"]
    assert {finding["classifier"] for finding in breaks} == {"leaning"}
    for finding in breaks:
        assert finding["sentence"] in seen["report"]
    edit, *_ = results(seen, "edit")
    assert edit["preset"] == {
        "backend": "weather-brush", "replace": "Change {removed} to {added}.", "add": "Add {added}.",
        "remove": "Remove {removed}.", "leave": "Change nothing.", "thickness": 0.8,
    }  # fmt: skip
    assert (edit["strength"], edit["strengths_tried"]) == (1.0, [1.0])


def test_the_control_is_an_edit_that_changes_nothing(seen: dict[str, Any]) -> None:
    assert seen["calls"] == ["edit"]
    controls = results(seen, "reconstruction")
    assert len(controls) == 16
    for control in controls:
        assert (control["psnr_db"], control["edited_caption"]) == (None, None)
        assert control["predictions"].keys() == {"steady", "leaning"}


def test_draws_without_a_seed_are_images_of_their_own(seen: dict[str, Any]) -> None:
    images = [result["image"] for result in results(seen, "confirmation")]
    assert len(set(images)) == len(images) > 16
    assert any("repeats on" in finding["sentence"] for finding in seen["summary"]["findings"])


def test_the_report_says_nothing_that_is_untrue_of_the_backend(seen: dict[str, Any]) -> None:
    # The configuration below has the names of settings.
    told = text_of(seen["report"].partition('id="configuration"')[0])
    assert not re.findall("redr[ae]w|reconstruct|strength|same noise", told, re.IGNORECASE)
    assert "Control: model says" in told
    assert "Answers changed by unchanged edit" in told
    assert "the editor takes no seed: the same command makes other images" in told


def test_what_the_backend_cannot_do_is_refused_by_name(seen: dict[str, Any]) -> None:
    assert "lacks 'draw', which the method 'bug-hunt' needs" in seen["hunt"]["detail"]
    assert "lacks 'levels'; leave strength out" in seen["strength"]["detail"]
