"""The gate on trial: what its trials plant is what they count, and what must hold is judged."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.contract.gates import TOLERANCE, GateOutcome
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from evaluation.evidence.gates import FAILURE_POINTS, GATE, FailurePointGates, GateFigures, gate_page
from evaluation.gate import __main__ as command
from evaluation.gate.miniature import MiniatureTrials
from evaluation.gate.simulation import Candidate, Trials, gate, right_after, trials


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_same_answers_pass_and_a_large_bug_fails() -> None:
    same = trials(Candidate(), 200, 3, generator())
    assert (same.outcomes["passed"].estimate, same.disagreement) == (1.0, 0.0)
    bug = trials(Candidate(bug=0.5), 200, 3, generator())
    assert bug.outcomes["failed"].estimate == 1.0


def test_a_bug_costs_as_many_right_answers_as_it_says() -> None:
    found = trials(Candidate(bug=0.3), 20_000, 1, generator())
    # One image in six is of the change.
    assert 6.0 * found.disagreement == pytest.approx(0.3, abs=0.02)
    assert 0.6 < right_after() < 0.95


def test_a_bug_of_one_class_fails_although_the_mean_over_all_does_not() -> None:
    right = np.ones((400, 3), dtype=np.bool_)
    wrong, labels = right.copy(), np.arange(400) % 8
    wrong[labels == 3, 1] = False
    kept = np.ones((400, 2), dtype=np.bool_)
    assert gate(right, wrong, kept, labels, generator()) == "failed"
    assert gate(right, wrong, kept, np.zeros(400, dtype=np.intp), generator()) == "inconclusive"


def outcomes(passed: int, failed: int) -> dict[GateOutcome, Estimate]:
    return {"passed": proportion(passed, 100), "failed": proportion(failed, 100)}


def simulated(name: str, passed: int, failed: int) -> tuple[str, Trials]:
    return name, Trials(Candidate(), command.ASKED_FOR, outcomes(passed, failed), 0.0)


def rendered(name: str, passed: int, failed: int) -> MiniatureTrials:
    return MiniatureTrials(name, "unbiased-resnet", 500, outcomes(passed, failed), 0.0, {})


@pytest.mark.parametrize(
    ("green", "red", "leaning", "copied", "holds"),
    [
        (95, 90, 90, 95, True),
        (94, 90, 90, 95, False),
        (95, 89, 90, 95, False),
        (95, 90, 89, 95, False),
        (95, 90, 90, 94, False),
    ],
)
def test_every_rate_that_the_issue_asks_for_is_judged(
    green: int, red: int, leaning: int, copied: int, holds: bool
) -> None:
    runs = [simulated(command.GREEN, green, 0), *(simulated(name, 0, red) for name in command.RED)]
    networks = [rendered("leaning-vit", 0, leaning), rendered("leaning-resnet, 8 bits", copied, 0)]
    assert command.holds(runs, networks) is holds


def test_the_result_file_holds_and_its_page_says_so(tmp_path: Path) -> None:
    found = GateFigures.model_validate_json(GATE.read_bytes())
    assert found.holds
    assert found.tolerance == TOLERANCE
    page = gate_page()
    assert f"On {found.asked_for} source images" in page
    by_failure_point = FailurePointGates.model_validate_json(FAILURE_POINTS.read_bytes())
    assert by_failure_point.holds
    assert all(each.verdict in page for each in by_failure_point.gates)
    other = copy.deepcopy(json.loads(GATE.read_text(encoding="utf-8")))
    other["unknown"] = 1
    file = tmp_path / "gate.json"
    file.write_text(json.dumps(other), encoding="utf-8")
    with pytest.raises(ValueError, match="unknown"):
        gate_page(file)
