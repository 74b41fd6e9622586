"""A method is added by a short patch, and runs from submission to report, by the SDK and by its command.

The patch is applied to a clean working tree of HEAD, and the SDK's blocking half is written anew, as by
whoever adds a method. The method asks how sure classifiers are of unchanged images; the product has it not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.patched_trees import patched_tree, python, seen_by, touched

PATCH = Path(__file__).with_name("method.patch")
GENERATED = "clients/counterpose/_sync/"
MOST_TOUCHED = 4
"""Files of the product that a method may change, besides its own and the generated ones."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A clean working tree of HEAD with the patch."""
    with patched_tree(PATCH, tmp_path_factory.mktemp("seams") / "tree") as folder:
        yield folder


@pytest.fixture(scope="module")
def seen(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the patch's program saw of two surveys, the second one of the command's."""
    python(tree, "clients/blocking_half.py")
    folder = tmp_path_factory.mktemp("run")
    found = seen_by(tree, "tests/seams/confidence_survey_run.py", folder, warnings=("-W", "error"))
    return {**found, "written": (folder / "report.html").read_text(encoding="utf-8")}


def test_the_patch_changes_few_files_of_the_product(tree: Path) -> None:
    by_hand = [name for name in touched(tree) if GENERATED not in name]
    assert 0 < len(by_hand) <= MOST_TOUCHED, by_hand


def test_a_method_is_submitted_once_and_worked_on_to_its_end(seen: dict[str, Any]) -> None:
    run = seen["run"]
    assert (run["kind"], run["state"], seen["same_run"]) == ("confidence-survey", "completed", True)
    assert run["request_counts"]["done"] == run["request_counts"]["total"] > 0


def test_the_sdk_reads_its_items_summary_report_and_images(seen: dict[str, Any]) -> None:
    done = seen["run"]["request_counts"]["done"]
    assert (seen["items"], seen["results"], seen["images"]) == (["survey"], done, done)
    assert seen["summary"]["confidences"]["steady"]["n"] == done
    assert "steady: 90 %" in seen["report"]
    assert "Surveyed images" in seen["card"]


def test_its_command_runs_it_and_the_commands_and_pages_of_all_runs_show_it(seen: dict[str, Any]) -> None:
    for text in (seen["printed"], seen["shown"]):
        assert "steady: 0.900 [" in text
        assert "leaning: 0.900 [" in text
    assert "leaning: 90 %" in seen["written"]
    assert seen["listed"].count('"kind": "confidence-survey"') == 2
    assert "Confidence survey of demo" in seen["page"]
