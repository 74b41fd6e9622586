"""The figures of judges: scripted errors, CLIP at equal yield, the rule's precision, and calibrations."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.stress_test.filters import GateReason
from evaluation.edit_quality.trials import trial
from evaluation.judges.edits import FAULTS, FIRST_SCENE, Row, served
from evaluation.judges.figures import Arm, best_by_clip, compared, figures, noticed, scripted


def row(number: int, *, right: bool, failed: GateReason | None = None, direction: float = 0.5) -> Row:
    return Row(
        source=number // 5,
        edit_type="object",
        fault="obeyed" if right else "ignored",
        right=right,
        failed=failed,
        direction=direction,
        contrast=float(number),
        captioner="yes",
        encoder="yes",
    )


ROWS = [
    row(number, right=number % 2 == 0, failed="gate-direction" if number % 3 == 0 else None)
    for number in range(600)
]


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2])
def test_a_scripted_judge_errs_at_its_rate(rate: float) -> None:
    said = scripted(ROWS, rate, np.random.default_rng(1))
    wrong = [(verdict == "yes") != one.right for verdict, one in zip(said, ROWS, strict=True)]
    assert abs(np.mean(wrong) - rate) < 0.04


def test_one_whose_errors_depend_on_the_image_errs_where_there_is_little_contrast() -> None:
    said = scripted(ROWS, 0.1, np.random.default_rng(1), hard=True)
    wrong = np.array([(verdict == "yes") != one.right for verdict, one in zip(said, ROWS, strict=True)])
    assert abs(wrong.mean() - 0.1) < 0.04
    assert not wrong[200:].any()


def test_clip_alone_keeps_what_gets_furthest_first() -> None:
    rows = [
        row(0, right=True, failed="gate-direction", direction=0.9),
        row(1, right=True, failed="gate-closer", direction=0.1),
        row(2, right=True, direction=0.3),
        row(3, right=True, direction=0.4),
    ]
    orders = [np.flatnonzero(best_by_clip(rows, number)).tolist() for number in (1, 2, 3)]
    assert orders == [[3], [2, 3], [1, 2, 3]]


def test_two_judges_that_never_err_keep_the_right_edits_and_clip_alone_does_not() -> None:
    right = scripted(ROWS, 0.0, np.random.default_rng(1))
    found = compared(ROWS, Arm("two", 2, [right, right]), seed=3)
    assert (found["rule"], found["kept"], found["precision"]["estimate"]) == ("2 of 3", 300, 1.0)
    assert found["recall"]["estimate"] == 1.0
    assert found["clip_precision"]["estimate"] == pytest.approx(0.5, abs=0.05)
    assert found["gain"]["low"] > 0.3
    alone = compared(ROWS, Arm("CLIP alone", 1), seed=3)
    assert alone["kept"] == sum(one.failed is None for one in ROWS)
    assert alone["gain"]["estimate"] == 0.0


def test_a_judge_that_lies_a_fifth_of_the_time_is_noticed_and_one_that_does_not_is_not() -> None:
    assert noticed(ROWS, 0.2, 200, seed=3)["unreliable"]["estimate"] > 0.9
    assert noticed(ROWS, 0.05, 200, seed=3)["unreliable"]["estimate"] == 0.0


def test_the_rows_of_scripted_judges_are_headed_as_what_they_are() -> None:
    told = figures(ROWS, seed=3)
    assert {one["arm"] for one in told["judges"]} == {
        "CLIP and a captioner",
        "CLIP and an encoder",
        "CLIP, a captioner and an encoder",
    }
    assert len(told["simulation of the rule"]) == 9
    assert told["edits"] + sum(one.source % 2 == 0 for one in ROWS) == len(ROWS)


def test_a_rendering_server_obeys_ignores_or_does_something_else() -> None:
    generator, seen = np.random.default_rng(5), dict[str, int]()
    for index in range(30):
        drawn = trial(index, FIRST_SCENE)
        for edit in drawn.edits:
            if (answer := served(drawn.scene, edit, generator)) is not None:
                seen[answer[0]] = seen.get(answer[0], 0) + 1
    assert seen.keys() == FAULTS.keys()
    assert seen["obeyed"] > sum(seen.values()) / 3
