"""The order of the validation: bugs are planted first, and nothing is computed twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

import counterpose_core
from counterpose import Client
from counterpose_core.contract.stress_tests import StressTestSummary
from evaluation.tests.fakes.validity import BOAT_BY_ITS_WATER, item, scene
from evaluation.validity import campaign, order, predictors
from evaluation.validity.campaign import Campaign
from evaluation.validity.contestants import WEIGHTS, Contestant
from evaluation.validity.order import ABOUT, Order, analysis_key, contestants, question_key, run_key
from evaluation.validity.running import Finished
from evaluation.validity.serving import Service
from evaluation.validity.truth import CLASSES, COLUMNS
from fakes.sdk import a_summary


class Asked(Exception):
    """Raised when the gateway is used."""


class Silent(Service):
    """A service that must not be used yet."""

    def client(self) -> Client:
        """Refuse."""
        raise Asked


class Certain:
    """A classifier that answers boat for every image."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, images: Tensor) -> Tensor:
        """Answer 0.9 for boat, for every image."""
        odds = torch.full((len(images), len(CLASSES)), 0.1 / (len(CLASSES) - 1))
        odds[:, CLASSES.index("boat")] = 0.9
        return odds


@pytest.fixture
def ordered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """Eight sources and one classifier, nothing rendered."""
    monkeypatch.setattr(predictors, "Predictor", Certain)
    monkeypatch.setattr(
        campaign, "rendered", lambda scenes, _: np.zeros((len(scenes), len(COLUMNS), 4, 4, 3), dtype=np.uint8)
    )
    (tmp_path / WEIGHTS).write_bytes(b"weights")
    entrants = [Contestant("local:certain", tmp_path, (BOAT_BY_ITS_WATER,))]
    return Campaign(Order(state=tmp_path / "state", sources=8), entrants, Silent(tmp_path, tmp_path))


def again(first: Campaign) -> Campaign:
    """The same campaign in another process."""
    return Campaign(first.order, first.entrants, Silent(first.order.state, first.order.models))


def refuse(*_: object) -> Finished:
    """Return a stress test that has already run."""
    raise Asked


def finished(monkeypatch: pytest.MonkeyPatch) -> Finished:
    """A stress test that has nothing left to do."""
    made = Finished("run-1", [item(scene(), None, kind="reconstruction", edit_type=None)])
    monkeypatch.setattr(Campaign, "_test", lambda *_: made)
    return made


def bug_files(state: Path) -> list[Path]:
    return list(state.glob("runs/*/bugs-*.json"))


def test_planted_bugs_are_saved_before_the_stress_test_starts(ordered: Campaign) -> None:
    with pytest.raises(Asked):
        _ = ordered.tested
    assert len(bug_files(ordered.order.state)) == 1


def test_truth_is_the_probability_of_each_source_s_class(ordered: Campaign) -> None:
    truth = ordered.truths["local:certain"]
    boat = next(at for at, one in enumerate(ordered.all_scenes) if one.object_class == "boat")
    assert truth.original(boat) == pytest.approx(0.9)
    assert truth.table.sum() == pytest.approx(len(COLUMNS) * (0.9 + 7 * 0.1 / 7))


def test_truth_is_not_rendered_again(ordered: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ordered.truths["local:certain"].table
    monkeypatch.setattr(predictors, "Predictor", None)
    monkeypatch.setattr(campaign, "rendered", None)
    assert np.array_equal(again(ordered).truths["local:certain"].table, first)


def test_a_finished_stress_test_is_not_run_again(ordered: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    made = finished(monkeypatch)
    assert ordered.tested == {0: made}
    monkeypatch.setattr(Campaign, "_test", refuse)
    assert again(ordered).tested == {0: made}


def test_a_summary_is_requested_again_after_the_gateway_s_code_changes(
    ordered: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(monkeypatch)
    asked: list[str] = []

    def summary(_: Campaign, tested: Finished) -> StressTestSummary:
        asked.append(tested.run_id)
        return a_summary()

    monkeypatch.setattr(Campaign, "_summary", summary)
    for code, times in (("old", 1), ("old", 1), ("new", 2)):
        monkeypatch.setattr(campaign, "analysis_key", lambda code=code: code)
        assert again(ordered).summaries == {0: a_summary()}
        assert asked == ["run-1"] * times
    assert again(ordered).seconds()["stress tests"] == a_summary().wall_s


def test_the_analysis_key_changes_with_the_code_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "core" / "rates.py"
    code.parent.mkdir()
    code.write_text("RATE = 1")
    monkeypatch.setattr(counterpose_core, "__file__", str(code.parent / "__init__.py"))
    before = analysis_key()
    (code.parent / "notes.txt").write_text("not code")
    assert analysis_key() == before
    code.write_text("RATE = 2")
    assert analysis_key() != before


def test_a_killed_stress_test_is_resumed_not_restarted(
    ordered: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    def begin(_: Campaign, client: Client, seed: int) -> str:
        begun.append(seed)
        return "run-7"

    def killed(runs: object, run_id: str) -> None:
        raise KeyboardInterrupt(run_id)

    monkeypatch.setattr(Campaign, "_begin", begin)
    monkeypatch.setattr(Silent, "client", lambda _: SimpleNamespace(stress_tests=None))
    monkeypatch.setattr(campaign, "take_up", killed)
    monkeypatch.setattr(campaign, "rest_others", lambda *_: None)
    for attempt in (ordered, again(ordered)):
        with pytest.raises(KeyboardInterrupt, match="run-7"):
            _ = attempt.tested
    assert begun == [0]


@pytest.mark.parametrize(("url", "rested"), [(None, ["run-1"]), ("http://gateway.test", [])])
def test_other_runs_are_cancelled_only_on_our_own_stack(
    ordered: Campaign, monkeypatch: pytest.MonkeyPatch, url: str | None, rested: list[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Campaign, "_begin", lambda *_: "run-1")
    monkeypatch.setattr(Silent, "client", lambda _: SimpleNamespace(stress_tests=None))
    monkeypatch.setattr(campaign, "take_up", refuse)
    monkeypatch.setattr(campaign, "rest_others", lambda _, run_id: asked.append(run_id))
    service = Silent(ordered.order.state, ordered.order.models, url=url)
    with pytest.raises(Asked):
        _ = Campaign(ordered.order, ordered.entrants, service).tested
    assert asked == rested


def test_a_finished_run_can_be_reported_after_the_suite_changes(
    ordered: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = finished(monkeypatch)
    monkeypatch.setattr(campaign, "take_up", lambda *_: None)
    folder = ordered._folder(0)
    folder.mkdir(parents=True)
    (folder / ABOUT).write_text(question_key(ordered.order, ordered.all_scenes, ordered.entrants))
    assert ordered.tested == {0: made}
    monkeypatch.setattr(Campaign, "_test", refuse)
    monkeypatch.setattr(order, "weights_below", lambda _: {"editor": "retrained"})
    with pytest.raises(Asked):
        _ = again(ordered).tested
    assert Campaign(replace(ordered.order, again=True), ordered.entrants, ordered._service).tested == {
        0: made
    }


def test_reporting_needs_a_finished_run(ordered: Campaign) -> None:
    with pytest.raises(ValueError, match="no run of seed 0"):
        Campaign(replace(ordered.order, again=True), ordered.entrants, ordered._service)


def test_time_is_summed_over_attempts(ordered: Campaign) -> None:
    for attempt in (ordered, again(ordered)):
        with attempt.timed("oracle"):
            pass
    known = again(ordered)._seconds()
    assert list(known) == ["oracle"]


def test_changing_preset_edits_or_checkpoint_starts_another_run(ordered: Campaign) -> None:
    given, entrants = ordered.order, list(ordered.entrants)
    scenes = ordered.all_scenes
    first = run_key(given, scenes, entrants)
    others = [
        run_key(replace(given, preset="lance"), scenes, entrants),
        run_key(replace(given, edits=5), scenes, entrants),
        run_key(given, scenes[1:], entrants),
    ]
    entrants[0].weights.write_bytes(b"other weights")
    others.append(run_key(given, scenes, entrants))
    assert len({first, *others}) == 5


def test_rehearsal_classifiers_are_stored_apart_from_trained_ones(tmp_path: Path) -> None:
    assert Order(state=tmp_path, smoke=True).models != Order(state=tmp_path).models


def test_the_suite_s_classifiers_take_part_along_with_a_user_s_folder(tmp_path: Path) -> None:
    (tmp_path / "control-seed100").mkdir()
    (tmp_path / "control-seed100" / WEIGHTS).touch()
    found = contestants(Order(state=tmp_path, classifiers=tmp_path))
    assert [one.spec for one in found][-2:] == ["clip:zero-shot-clip", "local:control-seed100"]
    assert len(found) == 6
