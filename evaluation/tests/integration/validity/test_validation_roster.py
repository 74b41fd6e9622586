"""The classifiers under test: checked-in bug files, their training runs, and folders named by a user."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from counterpose_core.types import EDIT_TYPES
from counterpose_miniature.training.bugs import SUITE_BUGS, Bug, read_bugs
from evaluation.validity import roster
from evaluation.validity.contestants import BUG_FILES, CLIP_WEIGHTS, WEIGHTS, Contestant
from evaluation.validity.sources import distribution_of

FILES = sorted(BUG_FILES.glob("*.json"))
SUITE_FILES = [file for file in sorted(SUITE_BUGS.glob("*.json")) if file.stem != "schema"]


def taught(files: Sequence[Path] = FILES) -> list[Bug]:
    return [bug for file in files for bug in read_bugs(file)]


def folder_of(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir()
        (root / name / WEIGHTS).touch()
    return root


def trained_by(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The trainings that are requested; each writes its figures."""
    asked: list[list[str]] = []

    def train(given: list[str]) -> None:
        asked.append(given)
        folder = Path(given[given.index("--out") + 1])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "figures.json").touch()

    monkeypatch.setattr(roster, "train", train)
    return asked


def test_at_least_eight_bugs_cover_every_edit_type() -> None:
    assert len({(bug.object_class, bug.attribute, bug.value) for bug in taught()}) >= 8
    assert {bug.edit_type for bug in taught()} == set(EDIT_TYPES)


def test_strengths_range_from_weak_to_strong() -> None:
    strengths = sorted(bug.strength for bug in taught())
    assert strengths[4] <= 0.35
    assert strengths[-5] >= 0.65
    assert sum(0.35 < strength <= 0.65 for strength in strengths) >= 5


def test_all_classifiers_share_one_set_of_sources() -> None:
    distribution_of("as-trained", [*taught(), *taught(SUITE_FILES)])


def test_bugs_are_trained_at_three_seeds_and_the_control_at_five() -> None:
    wanted = roster.trainings(FILES, Path("out"))
    counts = {file.stem: sum(one.bugs == file for one in wanted) for file in FILES}
    assert counts == {"control": 5, "spread-a": 3, "spread-b": 3, "spread-c": 3}


def test_further_controls_keep_the_seeds_of_the_first_five() -> None:
    first, more = roster.trainings(FILES, Path("out")), roster.trainings(FILES, Path("out"), controls=20)
    assert len(more) == len(first) + 15
    assert {one.folder for one in first} <= {one.folder for one in more}
    assert len({one.seed for one in more}) == len(more)


def test_no_two_trainings_share_a_seed_or_a_folder() -> None:
    wanted = roster.trainings(FILES, Path("out"))
    assert len({one.seed for one in wanted}) == len({one.folder for one in wanted}) == len(wanted)
    assert min(one.seed for one in wanted) >= 100


def test_only_missing_classifiers_are_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = roster.trainings([BUG_FILES / "spread-a.json"], tmp_path)
    asked = trained_by(monkeypatch)
    roster.train_missing(wanted[1:2], tmp_path / "work", smoke=True)
    roster.train_missing(wanted, tmp_path / "work", smoke=True)
    assert [given[given.index("--seed") + 1] for given in asked] == [
        str(one.seed) for one in (wanted[1], wanted[0], wanted[2])
    ]
    assert all("--smoke" in given for given in asked)
    assert {given[given.index("--steps") + 1] for given in asked} == {str(roster.STEPS)}


def test_a_classifier_with_different_bugs_is_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bugs = tmp_path / "spread-a.json"
    asked = trained_by(monkeypatch)
    for text in (BUG_FILES / "spread-b.json", BUG_FILES / "spread-c.json"):
        shutil.copy(text, bugs)
        roster.train_missing(roster.trainings([bugs], tmp_path / "out")[:1], tmp_path / "work")
    assert len(asked) == 2


def test_classifiers_in_a_folder_have_the_bugs_of_the_given_file(tmp_path: Path) -> None:
    found = roster.found_in(folder_of(tmp_path, "mine"), BUG_FILES / "spread-b.json")
    assert [(one.spec, len(one.bugs)) for one in found] == [("local:mine", 6)]


def test_classifiers_in_a_folder_have_the_bugs_their_names_state(tmp_path: Path) -> None:
    found = roster.found_in(folder_of(tmp_path, "control-seed100", "spread-a-seed110"), None)
    assert [one.is_control for one in found] == [True, False]


def test_a_classifier_with_unknown_bugs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'mystery'"):
        roster.found_in(folder_of(tmp_path, "mystery"), None)


def test_a_folder_without_classifiers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=WEIGHTS):
        roster.found_in(tmp_path, None)


def test_the_suite_s_classifiers_take_part_but_not_as_control_seeds() -> None:
    found = [*roster.suite_classifiers(), *roster.zero_shot_classifiers()]
    assert [one.spec for one in found if not one.bugs] == ["unbiased-resnet", "clip:zero-shot-clip"]
    assert not any(one.is_control for one in found)
    assert all(one.weights.exists() for one in found)


def test_different_prompts_make_a_different_zero_shot_classifier(tmp_path: Path) -> None:
    (tmp_path / CLIP_WEIGHTS).touch()
    asked = [Contestant("clip:mine", tmp_path, (), prompts) for prompts in (("a bus",), ("a photo",))]
    assert asked[0].digest != asked[1].digest


def test_different_checkpoints_have_different_digests(tmp_path: Path) -> None:
    one, two = roster.found_in(folder_of(tmp_path, "a", "b"), BUG_FILES / "control.json")
    assert one.digest == two.digest
    shutil.copy(__file__, two.weights)
    assert one.digest != two.digest
