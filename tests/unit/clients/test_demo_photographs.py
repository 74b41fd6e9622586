"""``counterpose demo photographs``: its stack, its request and its table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from counterpose._cli.demo import LEVELS, NETWORKS, OPERATIONS, REAL_IMAGES
from counterpose._cli.operations import comparison_text
from counterpose._stack import Images, Programs, Stack
from counterpose._stack.demo_datasets import DemoDatasets
from counterpose._stack.environment import MODELS_VARIABLE, environment_of
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transforms import OperationFigure, OperationLevel, TransformSummary
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import load_suite
from counterpose_core.transforms.table import operation
from fakes.command import Play, run
from fakes.sdk import a_summary, figure, ok, run_answer, summary_answer


class NotedDatasets(DemoDatasets):
    """Datasets that note the commands instead of running them."""

    def _run(self, failure: str, command: Sequence[str]) -> None:
        with (self.state / "commands").open("a", encoding="utf-8") as commands:
            commands.write(" ".join(command) + "\n")
        if command[3:4] == ["counterpose_photographs.images"]:
            Path(command[4]).mkdir(parents=True)


def an_operation(name: str, classifier: str, lost: int, gained: int) -> OperationFigure:
    row, breaks = operation(name), lost > 5
    level = OperationLevel(
        level=3, words=row.in_words(3 if row.levels > 1 else 1), accuracy=figure(), loss=figure(), lost=lost,
        gained=gained, p=0.01, shown=breaks,
    )  # fmt: skip
    return OperationFigure(
        classifier=classifier, operation=name, title=row.title, family=row.family, changes=row.changes,
        keeps=row.keeps, state="breaks" if breaks else "cannot-tell", images=54, sentence="It is so.",
        levels=[level],
    )  # fmt: skip


def a_comparison() -> StressTestSummary:
    """Two operations on 54 images; the second network was not asked about the second one."""
    figures = [
        an_operation("gaussian-blur", NETWORKS[0], 32, 1),
        an_operation("gaussian-blur", NETWORKS[1], 28, 0),
        an_operation("darker", NETWORKS[0], 3, 2),
    ]
    found = TransformSummary(
        images=54, groups=54, size=512, among={}, tested=4, margin=0.1,
        controls=dict.fromkeys(NETWORKS[:2], figure()), placebos={}, figures=figures,
        left_out={"background-grey": "no image has a mask"},
    )  # fmt: skip
    return a_summary(steady=figure()).model_copy(update={"transforms": found, "verdict": "Blur hurts."})


def test_the_table_has_each_operation_beside_each_network(capsys: pytest.CaptureFixture[str]) -> None:
    lines = comparison_text(a_comparison()).splitlines()
    assert lines[:4] == [
        "Blur hurts.",
        "",
        f"operation\t{NETWORKS[0]}\t{NETWORKS[1]}",
        "Gaussian blur\tbreaks: -32 +1\tbreaks: -28 +0",
    ]
    assert lines[4] == "Darkness\tcannot tell: -3 +2\t-"
    assert "Of 54 images" in lines[5]
    assert lines[6:] == ["left out: background-grey, as no image has a mask"]
    with pytest.raises(ValueError, match="run-1 has no operations"):
        comparison_text(a_summary())


def test_the_demo_starts_its_suite_and_compares_three_networks(
    play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    suites: list[str | None] = []

    @contextmanager
    def temporarily(self: Stack, images: Images) -> Iterator[None]:
        suites.append(self.suite)
        self.started.append("services")
        images(self.datasets())
        yield

    monkeypatch.setattr(Stack, "temporarily", temporarily)
    registered: list[str] = []
    monkeypatch.setattr(DemoDatasets, "register_photographs", lambda _, name: registered.append(name))
    script = play(run_answer(), run_answer("completed"), summary_answer(a_comparison()), ok("<html>"))
    ended = run("demo", "photographs")
    assert (ended.exit_code, suites, registered) == (0, ["photographs"], [REAL_IMAGES])
    asked = json.loads(script.seen[0].content)
    assert (asked["dataset"], asked["classifiers"]) == (REAL_IMAGES, list(NETWORKS))
    assert asked["transforms"]["operations"] == list(OPERATIONS)
    assert (asked["transforms"]["levels"], asked["transforms"]["among"]) == (list(LEVELS), "model")
    assert "breaks: -32 +1" in ended.stdout
    assert "counterpose up --suite photographs\n" in ended.stdout
    assert "rendered images" not in ended.stdout
    written = tmp_path / "counterpose-demo"
    assert json.loads((written / "photographs.json").read_text(encoding="utf-8"))["verdict"] == "Blur hurts."
    assert (written / "photographs.html").read_text(encoding="utf-8") == "<html>"


def test_the_demo_s_operations_are_the_suite_s() -> None:
    transforms = load_suite("photographs").transforms
    assert transforms is not None
    # Of a suite's own none needs a mask, which few photographs have.
    assert {name for name in OPERATIONS if not operation(name).needs_mask} <= set(transforms.operations)
    assert len(set(OPERATIONS)) == len(OPERATIONS)


def test_networks_are_written_before_the_images_and_where_the_services_look(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, 1, 2, {})
    assert environment[MODELS_VARIABLE] == str(tmp_path / "models")
    programs = Programs.of(tmp_path / "bin")
    NotedDatasets(tmp_path, programs, environment).register_photographs("real")
    networks, images, register = (tmp_path / "commands").read_text(encoding="utf-8").splitlines()
    assert networks.endswith(f"-m counterpose_photographs.networks {tmp_path / 'models'}")
    assert images.endswith(f"{tmp_path / 'datasets/real.part'} --models {tmp_path / 'models'}")
    assert register.endswith(f"register-dataset real {tmp_path / 'datasets/real'}")


def test_another_folder_of_models_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, 1, 2, {MODELS_VARIABLE: "/mine"})
    datasets = NotedDatasets(tmp_path, Programs.of(tmp_path / "bin"), environment)
    with pytest.raises(InvalidRequest, match=rf"{MODELS_VARIABLE} is '/mine'.*leave the variable out"):
        datasets.register_photographs("real")
    assert not (tmp_path / "commands").exists()
