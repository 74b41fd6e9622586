"""Verdicts: one state and one short sentence for each classifier, and what the headline says of the run."""

from __future__ import annotations

import pytest

from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.evidence import Evidence
from counterpose_gateway.methods.stress_test.summary.headline import headline
from counterpose_gateway.methods.stress_test.summary.hints import as_findings
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.methods.stress_test.summary.verdict import MARGIN, classifier_verdicts
from fakes.findings import a_finding
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config

STEADY, SHAKEN = {"steady": 0.9, "leaning": 0.9}, {"steady": 0.9, "leaning": 0.2}


def summary(ledgered: Ledgered) -> StressTestSummary:
    return summarize(recorded_run(fake_config(), ledgered.items), ledgered.items)


def shaken(number: int, **edits: dict[str, float]) -> Ledgered:
    ledgered = Ledgered()
    ledgered.stress([f"source-{index}" for index in range(number)], {"background": SHAKEN, **edits})  # type: ignore[dict-item]  # keywords are edit types
    return ledgered


def states(made: StressTestSummary) -> dict[str, FindingState]:
    return {verdict.classifier: verdict.state for verdict in made.verdicts}


@pytest.mark.paper("LANCE-B-placebo")
def test_a_shown_change_breaks_a_classifier_and_the_steady_one_is_judged_by_its_interval() -> None:
    made = summary(shaken(60))
    assert states(made) == {"leaning": "breaks", "steady": "holds"}
    assert [verdict.classifier for verdict in made.verdicts] == ["leaning", "steady"]
    assert made.verdicts[0].sentence == (
        "leaning takes sleds for boats once “grass” becomes “snow”: 60 of 60 images."
    )
    assert "held on 60 edits: a loss of accuracy above" in made.verdicts[1].sentence
    assert made.verdict.splitlines()[0] == "1 of 2 models breaks when one thing in the image changes."


def test_four_of_four_images_are_a_suspicion_and_the_rest_cannot_tell() -> None:
    made = summary(shaken(4))
    assert states(made) == {"leaning": "suspected", "steady": "cannot-tell"}
    lines = made.verdict.splitlines()
    assert lines[0] == "1 of 2 models looks fooled by something other than the object."
    assert lines[1].endswith("4 of 4 images, not yet tested.")
    assert "too few images, 4 of at least 7; a loss of up to" in lines[2]
    assert lines[3] == "No change of words could be tested: the largest group has 4 sources, a test takes 5."


@pytest.mark.paper("LANCE-X-pretrained-bias")
def test_a_reconstruction_that_changes_answers_replaces_the_verdict() -> None:
    ledgered = Ledgered()
    for index in range(30):
        ledgered.add(f"source-{index}", "reconstruction", after=SHAKEN)
        ledgered.add(f"source-{index}", "placebo")
        ledgered.add(f"source-{index}", edit_type="background", after=SHAKEN)
    made = summary(ledgered)
    leaning = next(verdict for verdict in made.verdicts if verdict.classifier == "leaning")
    assert leaning.state == "test-unfit"
    assert (
        leaning.sentence
        == "The editor alone changes 100 % of leaning's answers; the test says nothing about it."
    )
    assert "takes" not in made.verdict


@pytest.mark.parametrize(("changed", "unfit"), [(0, False), (1, False), (6, True)])
def test_few_changed_reconstructions_do_not_make_a_test_unfit(changed: int, unfit: bool) -> None:
    ledgered = shaken(20)
    for index in range(changed):
        item = ledgered.items[3 * index]
        assert item.result is not None
        result = item.result.model_copy(
            update={"predictions": dict.fromkeys(SHAKEN, ledgered.items[2].result.predictions["leaning"])}  # type: ignore[union-attr]  # it has a result
        )
        ledgered.items[3 * index] = item.model_copy(update={"result": result})
    assert (states(summary(ledgered))["leaning"] == "test-unfit") is unfit


def test_a_loss_spread_over_many_changes_still_breaks() -> None:
    model = summary(shaken(60)).models["leaning"]
    [verdict] = classifier_verdicts({"leaning": model}, [])
    assert (verdict.state, verdict.finding) == ("breaks", None)
    assert "no single change explains it" in verdict.sentence


@pytest.mark.parametrize(("high", "state"), [(MARGIN, "holds"), (0.11, "cannot-tell"), (1.0, "cannot-tell")])
def test_a_classifier_holds_only_if_a_loss_above_the_margin_is_ruled_out(
    high: float, state: FindingState
) -> None:
    model = summary(shaken(5)).models["steady"]
    known = model.model_copy(update={"drop": Estimate(estimate=0.0, low=0.0, high=high, n=5)})
    [verdict] = classifier_verdicts({"steady": known}, [])
    assert verdict.state == state
    assert verdict.ruled_out == high


def test_a_classifier_without_kept_edits_is_told_so() -> None:
    ledgered = Ledgered()
    for index in range(20):
        source = f"source-{index}"
        ledgered.add(source, "reconstruction", before={"steady": 0.9})
        ledgered.add(source, edit_type="domain", before={"steady": 0.9}, after={"steady": 0.9})
    assert "leaning: no edit survived with its control, so there is no result." in summary(ledgered).verdict


def test_findings_of_the_run_decide_and_are_named_by_number() -> None:
    models = summary(shaken(4)).models
    findings = [a_finding(number=3, state="breaks"), a_finding(number=4, state="holds", classifier="steady")]
    verdicts = classifier_verdicts(models, findings)
    assert [(one.classifier, one.state, one.finding) for one in verdicts] == [
        ("leaning", "breaks", 3),
        ("steady", "cannot-tell", None),
    ]


def test_a_verdict_says_what_its_finding_says() -> None:
    models = {"leaning": summary(shaken(4)).models["leaning"]}
    [verdict] = classifier_verdicts(models, [a_finding(sentence="leaning takes sleds for boats.")])
    assert verdict.sentence == "leaning takes sleds for boats."


@pytest.mark.parametrize("number", [4, 19, 60])
def test_every_verdict_has_at_most_twenty_words(number: int) -> None:
    for verdict in summary(shaken(number, domain=STEADY)).verdicts:
        assert len(verdict.sentence.split()) <= 20


@pytest.mark.parametrize("state", ["breaks", "suspected", "test-unfit", "cannot-tell", "holds"])
def test_a_single_model_has_a_headline_of_its_own(state: FindingState) -> None:
    verdict = classifier_verdicts(summary(shaken(4)).models, [])[0].model_copy(update={"state": state})
    assert headline([verdict]).startswith("The ")
    assert headline([verdict, verdict]).startswith("All 2 models")


def test_a_part_of_a_surer_finding_is_no_finding_of_its_own() -> None:
    ledgered = shaken(4)
    made = summary(ledgered)
    [insight] = made.insights
    whole = insight.model_copy(update={"significant": True})
    found = as_findings([insight, whole], [Evidence.of(ledgered.items, "leaning")], LanceEstimator(0))
    assert [finding.state for finding in found] == ["breaks"]


def test_a_hint_has_one_pair_a_source_with_its_placebo_and_the_median_first() -> None:
    ledgered = Ledgered()
    for index, p in enumerate((0.1, 0.3, 0.2)):
        source = f"source-{index}"
        ledgered.stress([source], {"background": {"steady": 0.9, "leaning": p}})
    seen = [Evidence.of(ledgered.items, "leaning")]
    [finding] = as_findings(summary(ledgered).insights, seen, LanceEstimator(0))
    assert (finding.flipped, finding.of, finding.taken_for) == (3, 3, "boat")
    assert finding.pairs[0].loss == pytest.approx(0.7)
    assert {round(pair.loss, 2) for pair in finding.pairs} == {0.7, 0.8, 0.6}
    kinds = {item.id: item.kind for item in ledgered.items}
    assert {kinds[pair.control or ""] for pair in finding.pairs} == {"placebo"}
    assert finding.number == 0
