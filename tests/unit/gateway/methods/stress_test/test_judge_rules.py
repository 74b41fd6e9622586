"""The rule by which a run's judges keep edits, and how far each can be believed."""

from __future__ import annotations

import pytest

from counterpose_core.contract.judges import (
    Calibration,
    Judgement,
    Rule,
    Verdict,
)
from counterpose_core.stress_test.judges import calibration_figures
from counterpose_core.types import JudgeName
from counterpose_gateway.methods.stress_test.screen.judges import (
    calibrations_of,
)
from fakes.runs import stress_test_request
from fakes.world import fake_suite

ALL: list[JudgeName] = ["clip", "encoder", "judge"]


@pytest.mark.parametrize(
    ("says", "keep", "decision"),
    [
        ({"clip": "yes", "encoder": "yes", "judge": "yes"}, None, "kept"),
        ({"clip": "yes", "encoder": "yes", "judge": "no"}, None, "dropped"),
        ({"clip": "yes", "encoder": "yes", "judge": "no"}, 2, "kept"),
        ({"clip": "no", "encoder": "yes", "judge": "yes"}, 2, "kept"),
        ({"clip": "no", "encoder": "no", "judge": "yes"}, 2, "dropped"),
        # A judge without a vote is neither a yes nor a no.
        ({"clip": "yes", "encoder": "yes", "judge": "late"}, 2, "kept"),
        ({"clip": "yes", "encoder": "no", "judge": "late"}, 2, "undecided"),
        ({"clip": "no", "encoder": "no", "judge": "malformed"}, 2, "dropped"),
        ({"clip": "yes", "encoder": "yes", "judge": "refused"}, None, "undecided"),
        ({"clip": "no", "encoder": "unsure", "judge": "refused"}, 1, "undecided"),
    ],
)
def test_so_many_of_the_judges_must_say_yes(
    says: dict[str, Verdict], keep: int | None, decision: str
) -> None:
    told = {name: Judgement(verdict=verdict) for name, verdict in says.items()}
    assert Rule.of(ALL, keep).decide(told) == decision


def test_a_judge_without_a_vote_is_asked_and_not_counted() -> None:
    rule = Rule.of(ALL, 2, "judge")
    assert (rule.asked, rule.voters) == (["encoder", "judge"], ("clip", "encoder"))
    for told, decision in (
        ({"clip": "yes", "encoder": "yes", "judge": "no"}, "kept"),
        ({"clip": "yes", "encoder": "no", "judge": "yes"}, "dropped"),
    ):
        said = {name: Judgement.model_validate({"verdict": told[name]}) for name in told}
        assert rule.decide(said) == decision
    assert str(rule) == "2 of 2 say yes (clip, encoder, judge without a vote)"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"judges": ["clip", "judge"], "thresholds": {"keep": 3}},
            "3 of the judges are to say yes, and only 2",
        ),
        ({"judges": ALL, "thresholds": {"keep": 3, "without": "clip"}}, "only 2 of 'clip', 'encoder'"),
        ({"thresholds": {"without": "clip"}}, "only 0 of 'clip' vote"),
        ({"thresholds": {"without": "judge"}}, "'judge' is none of the run's, which are 'clip'"),
        ({"judges": ["clip", "clip"]}, "'clip' is listed twice"),
        ({"judges": []}, "at least 1 item"),
    ],
)
def test_a_rule_that_nothing_can_meet_is_refused(asked: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        stress_test_request(**asked)


def test_a_request_of_clip_alone_is_stored_as_it_was_before_there_were_others() -> None:
    stored = stress_test_request().model_dump(mode="json")
    assert not {"judges"} & stored.keys()
    assert not {"keep", "without"} & stored["thresholds"].keys()


def test_a_calibration_counts_votes_and_sees_a_judge_that_lies_a_fifth_of_the_time() -> None:
    judged = [("yes", True)] * 80 + [("no", True)] * 20 + [("yes", False)] * 20 + [("no", False)] * 80
    figures = calibration_figures(Calibration.of([*judged, ("late", False)], "ratings"))
    assert (figures.precision.estimate, figures.recall.estimate) == (0.8, 0.8)
    assert (figures.errors.estimate, figures.errors.n, figures.without_vote) == (0.2, 200, 1)
    assert figures.unreliable
    right = [("yes", True)] * 95 + [("no", True)] * 5
    assert not calibration_figures(Calibration.of(right, "ratings")).unreliable
    nothing = calibration_figures(Calibration.of([], "ratings"))
    assert nothing.precision.estimate is None
    assert not nothing.unreliable


def test_a_right_edit_that_a_judge_has_no_vote_on_is_not_recalled() -> None:
    judged = [("yes", True)] * 10 + [("refused", True)] * 40 + [("late", False)] * 5 + [("no", False)] * 20
    counts = Calibration.of(judged, "ratings")
    assert (counts.without_vote, counts.right_without_vote) == (45, 40)
    figures = calibration_figures(counts)
    assert (figures.recall.estimate, figures.recall.n, figures.errors.n) == (0.2, 50, 30)
    assert "recall 0.200" in str(figures)
    assert "without a vote 45" in str(figures)
    with pytest.raises(ValueError, match="right_without_vote is a part of without_vote, and is larger"):
        Calibration.model_validate(counts.model_dump() | {"without_vote": 39})


def test_a_run_records_how_far_its_own_judges_can_be_believed() -> None:
    counts = Calibration.of([("yes", True)], "ratings")
    suite = fake_suite().model_copy(update={"calibrations": {"clip": counts, "encoder": counts}})
    assert calibrations_of(Rule.of(["clip", "judge"]), suite) == {"clip": counts}
    assert calibrations_of(Rule.of(["clip"]), suite) == {}
