"""A task with a graded score is added by a short patch, and a stress test and a gate run with it.

The patch is applied to a clean working tree of HEAD. Its task has classes that are grades: how far an answer
is off counts. It is no part of the product, and no line of the product knows of it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.pages import text_of
from fakes.patched_trees import ROOT, patched_tree, seen_by, touched

PATCH = Path(__file__).with_name("task.patch")
PRODUCT = ("clients", "gateway", "services", "suites", "integrations")
MOST_TOUCHED = 3
"""Files of the product that a task may change, besides its own."""
CLASSIFICATION = ("acc@1", "acc@5", "true class", "p(", "Confidence in")
"""What a report says of the score and the figures of a classification alone."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A clean working tree of HEAD with the patch."""
    with patched_tree(PATCH, tmp_path_factory.mktemp("seams") / "tree") as folder:
        yield folder


@pytest.fixture(scope="module")
def seen(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the patch's program saw of a stress test and a gate, and their reports."""
    folder = tmp_path_factory.mktemp("run")
    found = seen_by(tree, "tests/seams/grades_run.py", folder, warnings=("-W", "error"))
    for name in ("report", "gate"):
        text = text_of((folder / f"{name}.html").read_text(encoding="utf-8"))
        found[f"{name} in words"] = text.replace("\u00a0", " ")
    return found


def answers(of: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
    """Every item with its answers, and the name of who answers."""
    for item in of["items"]:
        for name, said in ((item["result"] or {}).get("predictions") or {}).items():
            yield item, said, name


def expected(label: str, name: str, *, snow: bool) -> tuple[float, list[bool]]:
    """The score and the hits of an answer: 1 less a third of the mean distance, of four grades."""
    if name == "steady" or not snow:
        return 1 - 0.2 * 1 / 3, [True, True]
    if label == "seed":
        return 1 - 0.8 * 3 / 3, [False, False]
    return 1 - (0.5 * 1 + 0.3 * 2) / 3, [False, True]


def test_the_patch_changes_few_files_of_the_product(tree: Path) -> None:
    assert 0 < len(touched(tree)) <= MOST_TOUCHED, touched(tree)


def test_no_line_of_the_product_knows_the_task() -> None:
    searched = subprocess.run(
        ["git", "grep", "-lE", "GradesTask|tasks.grades|exact grade", "HEAD", "--", *PRODUCT], cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (searched.returncode, searched.stdout) == (1, "")


def test_every_answer_is_scored_by_how_far_it_is_off(seen: dict[str, Any]) -> None:
    assert seen["test"]["run"]["state"] == "completed"
    scores = set()
    for item, said, name in answers(seen["test"]):
        score, hits = expected(item["label"], name, snow="snow" in (item["result"]["edited_caption"] or ""))
        assert (said["score"], said["hits"]) == (pytest.approx(score), hits)
        scores.add(round(said["score"], 4))
    assert scores == {0.9333, 0.6333, 0.2}


def test_the_weak_model_is_found_and_its_figures_are_those_of_the_task(seen: dict[str, Any]) -> None:
    summary = seen["test"]["summary"]
    breaks = [each for each in summary["findings"] if each["state"] == "breaks"]
    assert {each["classifier"] for each in breaks} == {"leaning"}
    assert {each["object_class"] for each in breaks} == {"bud", "blossom", "fruit", "seed"}
    losses = {each["object_class"]: each["confirmed"]["loss"]["estimate"] for each in breaks}
    assert losses["seed"] == pytest.approx(0.9333 - 0.2, abs=1e-3)
    assert losses["bud"] == pytest.approx(0.9333 - 0.6333, abs=1e-3)
    # A third of the edits have snow; only a seed in the snow is off by more than one grade.
    exact, within_one = summary["models"]["leaning"]["counterfactual"]["hit_rates"]
    assert (exact["estimate"], within_one["estimate"]) == (pytest.approx(2 / 3), pytest.approx(11 / 12))


def test_the_report_names_the_tasks_own_figures(seen: dict[str, Any]) -> None:
    # The configuration below has the names of settings.
    told = seen["report in words"].partition("Everything this run depends on")[0]
    for words in ("exact grade", "within one grade", seen["test"]["summary"]["task"]["rule"]):
        assert words in told
    assert "On “seed”, nearness to the true grade goes from 93 % to 20 % on average." in told
    assert [words for words in CLASSIFICATION if words in told] == []


def test_the_command_of_the_report_names_the_task(seen: dict[str, Any]) -> None:
    settings = '{"name":"grades","order":["bud","blossom","fruit","seed"]}'
    assert f"--task '{settings}'" in seen["report in words"]


def test_a_gate_on_its_images_scores_by_the_task(seen: dict[str, Any]) -> None:
    gate = seen["gate"]
    assert gate["summary"]["config"]["task"] == seen["test"]["run"]["resolved_config"]["request"]["task"]
    assert gate["summary"]["outcome"] == "failed"
    assert {round(said["score"], 4) for _, said, name in answers(gate) if name == "leaning"} > {0.6333, 0.2}
    assert seen["test"]["summary"]["task"]["rule"] in seen["gate in words"]


def test_settings_that_do_not_fit_the_dataset_are_refused_by_name(seen: dict[str, Any]) -> None:
    assert "the order names blossom, fruit, seed" in seen["refused"]["detail"]
    assert seen["refused"]["errors"][0]["pointer"] == "/task/order"
