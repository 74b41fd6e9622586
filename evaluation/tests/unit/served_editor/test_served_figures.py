"""Figures count what the gate did against what the server did, and leave out what nobody can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterpose_core.text.edit_instruction import TEMPLATES
from evaluation.paths import RESULTS
from evaluation.served_editor.figures import (
    aims,
    bug_figures,
    control_figures,
    found_figures,
    gate_figures,
    outcome_figures,
    pairs_of,
    region_figures,
)
from evaluation.served_editor.oracle import Answer, question_key
from evaluation.tests.fakes.served_editor import AFTER, BEFORE, IMAGE, item, pair
from evaluation.validity.detection import Trial
from evaluation.validity.report import Validity
from evaluation.validity.truth import Truth

REFUSED: dict[str, Any] = {"reason": "gate-preservation", "faults": ["moved"]}
PAIRS = [
    pair("shift", fault="2%", **REFUSED),
    pair("shift", fault="2%", faults=[]),
    pair("leak", faults=[]),
    pair("obeys", faults=[]),
    pair("another size", faults=[]),
    pair("obeys", **REFUSED),
    pair("obeys", seen=False, **REFUSED),
    pair("shift", fault="4%", reason="gate-direction"),
    pair("obeys", kind="lance-r", **REFUSED),
]


def test_items_are_joined_with_what_the_server_did_for_their_question() -> None:
    prompt = TEMPLATES["both-captions"].instruction(BEFORE, AFTER)
    answer = Answer(IMAGE, "leak", "flat", {}, True)
    other = item().model_copy(update={"result": None})
    (joined,) = pairs_of([item(seed=3), other], {question_key(IMAGE, prompt, 3): answer})
    assert joined.answer == answer


def test_precision_is_of_kept_edits_whose_change_is_seen() -> None:
    told = gate_figures(PAIRS)
    assert told["edits answered"] == 8
    assert told["left out: the change is not seen"]["estimate"] == pytest.approx(1 / 8)
    assert told["left out: another filter dropped it before"]["estimate"] == pytest.approx(1 / 7, abs=1e-4)
    # Kept: a shift, a leak, one that obeys, one in another size.
    assert (told["kept without a fault"]["estimate"], told["kept without a fault"]["n"]) == (0.5, 4)
    # A leak cannot be told where nobody gave a region.
    assert told["kept without a fault, of faults that can be told"]["n"] == 3
    assert told["refused with a fault"]["estimate"] == 0.5
    assert told["false refusals"] == told["false refusals by what was asked"]["colour"]
    assert (told["false refusals"]["estimate"], told["false refusals"]["n"]) == (
        pytest.approx(1 / 3, abs=1e-4),
        3,
    )
    assert told["false refusals by fault"] == {"moved": 1}


def test_planted_faults_are_counted_by_kind_and_by_all_filters() -> None:
    told = found_figures(PAIRS)["shift"]
    assert (told["refused for preservation"]["estimate"], told["refused for preservation"]["n"]) == (0.5, 2)
    assert told["dropped by any filter of images"]["n"] == 3
    assert set(told["by kind"]) == {"2%"}


def test_of_controls_a_fault_must_have_one_of_its_names() -> None:
    controls = [
        pair("leak", kind="reconstruction", faults=["leaked"]),
        pair("leak", kind="reconstruction", faults=["moved"]),
        pair("obeys", kind="reconstruction", faults=[]),
        pair("obeys", kind="reconstruction"),
    ]
    told = control_figures(controls)
    assert told["leak"]["found"]["estimate"] == 1.0
    assert told["leak"]["named"]["estimate"] == 0.5
    assert (told["without a fault, and called faulty"]["estimate"], told["shift"]["found"]["n"]) == (0.0, 0)
    assert told["without a fault, and called faulty"]["n"] == 1


def test_an_edit_of_all_of_the_image_is_left_out_by_the_region() -> None:
    told = region_figures([("leak", "a", ["leaked"]), ("leak", "b", []), ("leak", "b", None)])
    assert (told["leak"]["found"]["estimate"], told["leak"]["found"]["n"]) == (0.5, 2)
    assert {kind: each["n"] for kind, each in told["leak"]["by kind"].items()} == {"a": 1, "b": 1}
    assert told["left out: all of the image was to change"]["n"] == 3


def test_bugs_are_compared_with_the_preset_over_the_classifiers_that_both_tested() -> None:
    quick = Validity.model_validate_json((RESULTS / "validity.json").read_bytes()).presets["quick"]
    truth = Truth([], np.empty((0, 0)))
    planted = [one for one in quick.bugs if one.classifier == "leaning-vit"]
    trial = Trial(3, [], [], {"leaning-vit": truth})
    told = bug_figures(planted, trial, quick, np.random.default_rng(0))
    assert told["missed"] == ["leaning-vit/fly-on-flowers-is-a-bee@3", "leaning-vit/bus-leans-on-yellow@3"]
    assert told["quick"]["missed"] == ["leaning-vit/fly-on-flowers-is-a-bee@3"]
    assert told["quick"]["planted bugs found"]["n"] == 2
    assert told["quick"]["alarmed"] == ["leaning-vit"]
    assert told["quick"]["significant insights"] == {"true": 3, "undecided": 1, "false-alarm": 1}


def test_refusals_by_policy_and_sizes_are_counted() -> None:
    prompt = TEMPLATES["both-captions"].instruction(BEFORE, AFTER)
    answers = {
        question_key(IMAGE, prompt, 7): Answer(IMAGE, "another size", "1.25 of the side", {}, True),
        "no item has it": Answer(IMAGE, "refuses", "none", {}, True),
    }
    told = outcome_figures([item(seed=7), item(reason="policy").model_copy(update={"result": None})], answers)
    assert told["another size, recorded as drift"]["estimate"] == 1.0
    assert told["questions refused by policy"] == told["items filtered as refused by policy"] == 1
    assert told["items"] == {"edit: done": 1, "edit: policy": 1}


def test_an_aim_is_met_by_its_figure_and_unknown_without_one() -> None:
    alarms = {"estimate": None, "low": None, "high": None, "n": 0}
    found = {"estimate": 0.75, "low": 0.4, "high": 0.9, "n": 8}
    bugs = {"planted bugs found": found, "quick": {"planted bugs found": found}, "false alarms": alarms}
    controls = control_figures([pair("shift", kind="reconstruction", faults=["moved"])])
    faulty = {
        "gate": gate_figures(PAIRS),
        "planted in edits": found_figures(PAIRS),
        "planted in controls": controls,
        "by the exact region": region_figures([("leak", "flat", ["leaked"]), ("leak", "flat", [])]),
        "bugs": bugs,
    }
    told = {aim["name"]: aim["met"] for aim in aims({"honest": {"bugs": bugs}, "faulty": faulty})}
    assert told["edits kept without a fault"] is False
    assert told["shifts of controls found"] is True
    assert told["leaks of controls found"] is None
    assert told["leaks of edits, by the exact region"] is False
    assert told["planted bugs found, honest server, as by quick"] is True
    assert told["significant insights that are false, faulty server"] is None
