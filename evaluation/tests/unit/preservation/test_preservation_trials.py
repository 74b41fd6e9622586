"""A trial's region is all that the change touches, and a command that was ended goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.preservation.limits import Limits
from evaluation.paths import RESULTS
from evaluation.preservation.__main__ import main
from evaluation.preservation.figures import calibration, figures, rates
from evaluation.preservation.planting import CALIBRATION, STRETCHES, TEST
from evaluation.preservation.trials import TOUCHED, rows, trial


@pytest.mark.parametrize("index", [0, 1, 2, 5])
def test_outside_its_region_a_true_counterfactual_is_the_source(index: int) -> None:
    pair = trial(CALIBRATION, index)
    away = np.abs(pair.source.astype(int) - pair.edited).max(axis=-1)
    assert away[~pair.region].max() <= TOUCHED
    assert away[pair.region].max() > 20
    assert 0.02 < pair.region.mean() < 0.95
    assert pair.before.changed(pair.attribute, getattr(pair.after, pair.attribute)) == pair.after
    assert len(pair.source) == (64, 256)[index % 2]


def test_both_stretches_draw_other_scenes_and_each_the_same_again() -> None:
    assert trial(TEST, 0).before != trial(CALIBRATION, 0).before
    assert (trial(TEST, 3).edited == trial(TEST, 3).edited).all()


def row(index: int, group: str, fault: str, *, shift: float = 0.0, leak: float = 1.0) -> dict[str, object]:
    """Return what is measured of a pair with such scores."""
    change = {"share": 0.5, "structure": 0.0, "colour": 1.0, "worst_structure": 0.0, "worst_colour": leak}
    scores = {
        "size_ratio": [1.0, 1.0],
        "region_given": True,
        "region_share": 0.5,
        "registration": {
            "shift": [shift, 0.0], "scale": [1.0, 1.0], "agreement": 1.0, "at_rest": 1.0, "visible": 1.0,
        },
        "inside": change | {"worst_colour": 50.0},
        "outside": change,
        "drift": None,
        "missing": {"drift": "no-majority"},
    }  # fmt: skip
    about = {"index": index, "side": 64, "attribute": "colour", "server": "exact", "group": group}
    return {**about, "fault": fault, "region": True, "scores": scores}


def test_of_a_scene_with_two_leaks_both_must_be_found() -> None:
    measured = [
        row(0, "leak", "flat", leak=30.0),
        row(0, "leak", "blurred", leak=1.0),
        row(2, "leak", "flat", leak=30.0),
        row(2, "leak", "blurred", leak=30.0),
        row(4, "good", "none"),
        row(6, "good", "none", shift=0.03),
    ]
    result = rates(measured, Limits())["region given"]
    assert (result["leak"]["found"]["estimate"], result["leak"]["found"]["n"]) == (0.5, 2)
    assert result["leak"]["found by kind"]["flat"]["n"] == 2
    assert result["leak"]["found by kind"]["blurred"]["estimate"] == 0.5
    assert result["false refusals"]["all"]["estimate"] == 0.5
    assert result["false refusals"]["by fault"] == {"moved": 1}


def test_a_fault_of_another_name_is_found_and_not_named() -> None:
    result = rates([row(0, "shift", "5 %", leak=30.0)], Limits())["region given"]["shift"]
    assert (result["found"]["estimate"], result["named"]["estimate"]) == (1.0, 0.0)


def test_controls_raise_the_limits_of_their_server() -> None:
    noisy = [row(100 + index, "control", "", leak=20.0) for index in range(24)]
    good = [row(0, "good", "none", leak=15.0)]
    assert rates(good, Limits())["region given"]["false refusals"]["all"]["estimate"] == 1.0
    result = rates([*good, *noisy], Limits())
    assert result["region given"]["false refusals"]["all"]["estimate"] == 0.0
    assert result["raised by controls"] == {"exact, 64": 5.0}


def test_the_ends_of_a_limit_are_what_good_edits_and_faults_reach() -> None:
    good = [row(index, "good", "none", shift=0.001) for index in range(20)]
    faults = [row(index, "shift", "5 %", shift=0.05) for index in range(20)]
    assert calibration([*good, *faults])["moved"] == {"let pass": 0.001, "fault": 0.05, "n": [20, 20]}


def test_a_command_that_was_ended_goes_on_where_it_was(tmp_path: Path) -> None:
    out, state = tmp_path / "preservation.json", tmp_path / "state"
    order = ["--calibration", "1", "--test", "1", "--controls", "1", "--state", str(state), "--out", str(out)]
    main(order)
    whole = out.read_bytes()
    (state / "calibration/trial-00000.json").unlink()
    (state / "test/trial-00000.json").write_text("[]")
    main(order)
    result = json.loads(out.read_bytes())
    assert "shift" in json.loads(whole)["test"]["region given"]
    assert "shift" not in result["test"]["region given"]
    assert result["calibration"] == json.loads(whole)["calibration"]


def test_a_trial_is_measured_with_every_group_of_faults() -> None:
    measured = list(rows(CALIBRATION, 2))
    assert {each["group"] for each in measured} >= {"good", "ignored", "shift", "zoom", "reshape", "leak"}
    assert {each["region"] for each in measured if each["group"] == "shift"} == {True, False}


def test_the_committed_figures_are_of_these_limits_and_these_stretches() -> None:
    committed = json.loads((RESULTS / "preservation.json").read_bytes())
    plain = json.loads(json.dumps(figures({name: [] for name in STRETCHES})))
    assert committed["limits"] == plain["limits"]
    assert committed["stretches"] == plain["stretches"]


def test_each_limit_lies_between_what_should_pass_and_what_is_a_fault() -> None:
    ends = json.loads((RESULTS / "preservation.json").read_bytes())["limits by the calibration"]
    for name, reach in ends.items():
        if not name.startswith("ignored"):
            assert reach["let pass"] < getattr(Limits(), name) < reach["fault"], name
    # An edit that keeps all texture has changed its colour, so that one of both is enough.
    assert ends["ignored_colour"]["let pass"] < Limits().ignored_colour < ends["ignored_colour"]["fault"]
