"""The order of the pieces: planted bugs first, and nothing made twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fakes.sdk import a_summary
from fakes.validity import BOAT_BY_ITS_WATER, item, scene
from faultline import Client
from validation import campaign, predictors
from validation.campaign import Campaign
from validation.contestants import WEIGHTS, Contestant
from validation.order import Order, contestants, run_key
from validation.running import Finished
from validation.serving import Service
from validation.truth import CLASSES, COLUMNS


class Asked(Exception):
    """Somebody wants the gateway."""


class Silent(Service):
    """A service that must not be asked yet."""

    def client(self) -> Client:
        """Refuse."""
        raise Asked


class Certain:
    """A classifier that takes everything for a boat."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, pictures: Tensor) -> Tensor:
        """Answer 0.9 for boat, whatever is shown."""
        odds = torch.full((len(pictures), len(CLASSES)), 0.1 / (len(CLASSES) - 1))
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
    """Run a stress test that has run already."""
    raise Asked


def bug_files(state: Path) -> list[Path]:
    return list(state.glob("runs/*/bugs-*.json"))


def test_what_counts_as_planted_is_on_disk_before_the_stress_test_begins(ordered: Campaign) -> None:
    with pytest.raises(Asked):
        _ = ordered.tested
    assert len(bug_files(ordered.order.state)) == 1


def test_truth_is_p_of_each_source_s_own_class(ordered: Campaign) -> None:
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
    made = Finished("run-1", 2.0, [item(scene(), None, kind="reconstruction", edit_type=None)], a_summary())
    monkeypatch.setattr(Campaign, "_test", lambda *_: made)
    assert ordered.tested == {0: made}
    monkeypatch.setattr(Campaign, "_test", refuse)
    assert again(ordered).tested == {0: made}
    assert again(ordered).seconds()["stress tests"] == 2.0


def test_time_is_added_up_over_attempts(ordered: Campaign) -> None:
    for attempt in (ordered, again(ordered)):
        with attempt.timed("oracle"):
            pass
    known = again(ordered)._seconds()
    assert list(known) == ["oracle"]


def test_another_preset_or_number_of_edits_or_checkpoint_is_another_run(ordered: Campaign) -> None:
    order, entrants = ordered.order, list(ordered.entrants)
    scenes = ordered.all_scenes
    first = run_key(order, scenes, entrants)
    others = [
        run_key(Order(state=order.state, sources=8, preset="lance"), scenes, entrants),
        run_key(Order(state=order.state, sources=8, edits=5), scenes, entrants),
        run_key(order, scenes[1:], entrants),
    ]
    entrants[0].weights.write_bytes(b"other weights")
    others.append(run_key(order, scenes, entrants))
    assert len({first, *others}) == 5


def test_a_rehearsal_s_classifiers_lie_apart_from_trained_ones(tmp_path: Path) -> None:
    assert Order(state=tmp_path, smoke=True).models != Order(state=tmp_path).models


def test_the_suite_takes_part_beside_a_user_s_folder(tmp_path: Path) -> None:
    (tmp_path / "control-seed100").mkdir()
    (tmp_path / "control-seed100" / WEIGHTS).touch()
    found = contestants(Order(state=tmp_path, classifiers=tmp_path))
    assert [one.spec for one in found][-2:] == ["clip:zero-shot-clip", "local:control-seed100"]
    assert len(found) == 6
