"""Interventions in summary, verdict and report: by classifier and class, and in no other figure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from counterpose_core.contract.stress_test_figures import LEAST_SHOWN, SHOWN_LEVEL
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.stress_test.screening import LEAST_LOSS, LEVEL
from counterpose_gateway.methods.stress_test.report.interventions import first_example, shown_interventions
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.reports.images import Album
from fakes.pages import text_of
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config
from fakes.runs import stress_test_request

CHOSEN = [{"removed": "grass", "added": "snow"}, {"added": "in the fog"}]
LOST = {"steady": 0.9, "leaning": 0.2}
SHAKEN = {"steady": 0.9, "leaning": 0.2}


def config(*, edits: int = 0) -> StressTestConfig:
    """Two interventions beside so many edits."""
    request = stress_test_request(interventions=CHOSEN, max_edits_per_image=edits)
    return fake_config().model_copy(update={"request": request})


def summary(ledgered: Ledgered, *, edits: int = 0) -> StressTestSummary:
    return summarize(recorded_run(config(edits=edits), ledgered.items), ledgered.items)


def report(ledgered: Ledgered, *, edits: int = 0) -> str:
    run = recorded_run(config(edits=edits), ledgered.items)
    made = render(summary(ledgered, edits=edits), run, ledgered.items, ledgered.world.store.get)
    return text_of(made)


def applied(number: int, ledgered: Ledgered | None = None) -> Ledgered:
    """Each source with controls and two interventions; the first shakes ``leaning``, the second nobody."""
    ledgered = ledgered or Ledgered()
    for index in range(number):
        source = f"source-{index}"
        ledgered.add(source, "reconstruction")
        ledgered.add(source, "placebo")
        ledgered.add(source, "intervention", slot=0, after=LOST)
        ledgered.add(source, "intervention", slot=1)
    return ledgered


def test_each_intervention_is_tested_per_classifier_in_its_own_family() -> None:
    snow, fog = summary(applied(20)).interventions
    assert (snow.removed, snow.added, snow.planned, snow.kept) == ("grass", "snow", 20, 20)
    hurt = snow.models["leaning"]
    assert hurt.delta_p.estimate == pytest.approx(-0.7)
    assert hurt.drop.estimate == pytest.approx(1.0)
    assert (hurt.significant, hurt.family_size) == (True, 4)
    assert hurt.family == "classifier x intervention, Holm at 0.05"
    assert hurt.beyond_controls is not None
    assert hurt.beyond_controls.estimate == pytest.approx(0.7)
    assert not any(found.significant for found in (snow.models["steady"], *fog.models.values()))
    assert snow.sentences[1].startswith(
        "leaning: when “grass” becomes “snow”, p(true class) changes by −0.70"
    )
    assert snow.sentences[1].endswith("beyond the controls, corrected for 4 tested.")
    assert fog.sentences[0].endswith("not shown beyond the controls.")


def test_few_images_that_hardly_change_promise_no_sensitivity() -> None:
    """Spread alone would say that a drop of a thousandth would be detected, beside a wide interval."""
    ledgered = Ledgered()
    for index in range(12):
        shaken = 0.8 + 0.0001 * (index % 3 - 1)
        ledgered.add(f"source-{index}", "reconstruction")
        ledgered.add(f"source-{index}", "placebo", after={"steady": 0.8, "leaning": 0.8})
        for slot in range(2):
            ledgered.add(
                f"source-{index}", "intervention", slot=slot, after={"steady": shaken, "leaning": shaken}
            )
    steady = summary(ledgered).interventions[0].models["steady"]
    assert steady.beyond_controls is not None
    assert steady.beyond_controls.high == pytest.approx(0.29, abs=0.05)
    assert steady.detectable_drop == pytest.approx(0.29, abs=0.05)
    assert f"a drop of {steady.detectable_drop:.2g} would be detected" in report(ledgered)


@pytest.mark.paper("LANCE-AB-apply-all")
@pytest.mark.paper("LANCE-F11-breeds")
def test_classes_are_reported_separately_with_the_hardest_image() -> None:
    ledgered = applied(3)
    ledgered.add("a bus", "reconstruction", label="bus")
    item = ledgered.add("a bus", "intervention", slot=0, label="bus", after={"steady": 0.9, "leaning": 0.1})
    snow, fog = summary(ledgered).interventions
    assert set(snow.classes) == {"sled", "bus"}
    assert set(fog.classes) == {"sled"}
    assert snow.classes["sled"]["leaning"].estimate == pytest.approx(-0.7)
    assert snow.classes["bus"]["leaning"].estimate == pytest.approx(-0.8)
    assert snow.classes["bus"]["leaning"].n == 1
    assert snow.example_item == item.id


def test_captions_without_the_words_are_counted_in_the_yield() -> None:
    ledgered = applied(2)
    for reason in ("not-applicable", "label-in-edit", "gate-closer"):
        ledgered.add("other", "intervention", slot=1, state="filtered", reason=reason, result=None)
    made = summary(ledgered)
    _, fog = made.interventions
    assert (fog.planned, fog.kept, fog.not_applicable) == (5, 2, 1)
    assert fog.yields.estimate == pytest.approx(2 / 5)
    names = ("applicable", "label", "closer")
    shares = [made.yields[f"intervention.{name}"] for name in names]
    assert [share.estimate for share in shares] == pytest.approx([6 / 7, 5 / 6, 4 / 5])
    assert made.yields["kept.intervention"].n == 7
    assert made.counts["planned"] == sum(made.counts.values()) - made.counts["planned"] == 11


def test_interventions_leave_the_rest_of_the_summary_unchanged() -> None:
    edited = Ledgered()
    edited.stress([f"source-{index}" for index in range(21)], {"background": SHAKEN})
    without = summary(edited, edits=5)
    for index in range(21):
        edited.add(
            f"source-{index}", "intervention", slot=0, before=LOST, after={"steady": 0.1, "leaning": 0.1}
        )
    beside = summary(edited, edits=5)
    assert beside.models == without.models
    assert (beside.insights, beside.edit_types) == (without.insights, without.edit_types)
    assert {n: share for n, share in beside.yields.items() if "intervention" not in n} == without.yields
    assert beside.verdict.startswith(without.verdict.split("\nsteady: when")[0])


def test_a_run_of_only_interventions_gets_a_verdict_from_them() -> None:
    made = summary(applied(20))
    assert made.edit_types == {}
    assert made.verdict.splitlines() == [
        "1 of 2 models breaks when one thing in the image changes.",
        "leaning loses 100 points of accuracy on 20 images when “grass” becomes “snow”.",
        "steady: no loss is shown (p = 1.000); "
        "a loss of up to 19 points could hide when “grass” becomes “snow”.",
        *(s for one in made.interventions for s in one.sentences),
    ]
    assert [(one.classifier, one.state) for one in made.verdicts] == [
        ("leaning", "breaks"),
        ("steady", "cannot-tell"),
    ]
    assert "nan" not in str(made)
    assert "counterfactual" not in str(made)


def test_a_classifier_holds_if_the_users_own_edits_rule_out_a_loss() -> None:
    steady = next(one for one in summary(applied(48)).verdicts if one.classifier == "steady")
    assert steady.state == "holds"
    ruled_out = r"a loss of accuracy above \d points is ruled out"
    assert re.fullmatch(rf"steady held on 96 images under your edits: {ruled_out}\.", steady.sentence)


def lost_by(losses: Sequence[float]) -> Ledgered:
    """A source with controls and the first intervention for each loss of ``leaning``."""
    ledgered = Ledgered()
    for index, loss in enumerate(losses):
        for kind in ("reconstruction", "placebo"):
            ledgered.add(f"source-{index}", kind)
        after = {"steady": 0.9, "leaning": 0.9 - loss}
        ledgered.add(f"source-{index}", "intervention", slot=0, after=after)
    return ledgered


def test_a_sure_and_tiny_loss_breaks_nothing_and_is_not_shown() -> None:
    made = summary(lost_by([0.03, 0.05] * 200))
    hurt = made.interventions[0].models["leaning"]
    assert hurt.p_adjusted is not None
    assert hurt.p_adjusted < 0.001
    assert (hurt.status, hurt.significant) == ("not-shown", False)
    assert (
        made.interventions[0]
        .sentences[1]
        .endswith("not shown beyond the controls: a loss below 0.05 counts for nothing.")
    )
    assert [one.state for one in made.verdicts] == ["holds", "holds"]


@pytest.mark.parametrize("number", [6, 8, 10, 12, 16, 24, 40])
def test_no_edit_breaks_a_classifier_beside_an_interval_that_holds_nothing(number: int) -> None:
    made = summary(lost_by([0.6, 0.35] * (number // 2)))
    hurt = made.interventions[0].models["leaning"]
    verdict = next(one for one in made.verdicts if one.classifier == "leaning")
    assert hurt.delta_p.high is not None
    assert (verdict.state == "breaks") == hurt.significant
    assert not hurt.significant or hurt.delta_p.high < 0.0
    assert hurt.significant or number < 40


def test_a_verdict_that_the_interval_denies_names_the_interval() -> None:
    made = summary(lost_by([0.6, 0.35] * 5))
    hurt = made.interventions[0].models["leaning"]
    assert hurt.p_adjusted is not None
    assert hurt.p_adjusted <= SHOWN_LEVEL
    assert hurt.delta_p.high is not None
    assert hurt.delta_p.high > 0.0
    told = next(one for one in made.verdicts if one.classifier == "leaning")
    assert told.state == "cannot-tell"
    assert hurt.beyond_controls is not None
    ends = f"{hurt.beyond_controls.low:.2f} to {hurt.beyond_controls.high:.2f}"
    rule = f"its interval beyond the controls, {ends}, includes 0"
    assert told.sentence.startswith(f"leaning: no loss is shown, as {rule}; a loss of up to ")
    assert len(told.sentence.split()) <= 30
    assert f"not shown beyond the controls: {rule}." in made.verdict
    assert f"not shown: {rule}" in report(lost_by([0.6, 0.35] * 5))


def test_what_is_worth_a_word_is_the_same_in_tables_and_findings() -> None:
    assert (LEAST_SHOWN, SHOWN_LEVEL) == (LEAST_LOSS, LEVEL)


def test_the_verdict_shows_the_edit_that_it_speaks_of() -> None:
    ledgered = Ledgered()
    for index in range(20):
        source = f"source-{index}"
        ledgered.add(source, "reconstruction")
        ledgered.add(source, "placebo")
        ledgered.add(source, "intervention", slot=0)
        ledgered.add(source, "intervention", slot=1, after=LOST)
    made = summary(ledgered)
    run = recorded_run(config(), ledgered.items)
    album = Album(ledgered.world.store.get)
    shown = shown_interventions(made, ledgered.items, album, ["steady"])
    assert "in the fog" in made.verdicts[0].sentence
    assert first_example(made, shown) is shown[1].example
    assert shown[1].example is not None
    page = render(made, run, ledgered.items, ledgered.world.store.get)
    verdict = page[page.index('id="verdict"') : page.index("</section>")]
    assert "svg" in verdict


def first_screen(ledgered: Ledgered) -> str:
    """The report's HTML from its verdict to its models."""
    run = recorded_run(config(), ledgered.items)
    page = render(summary(ledgered), run, ledgered.items, ledgered.world.store.get)
    return page[page.index('id="verdict"') : page.index('id="models"')]


def test_the_first_screen_of_own_edits_shows_original_control_and_edit() -> None:
    first = first_screen(applied(20))
    assert re.findall(r'class="which">([^<]+)<', first) == ["Your image", "Control", "Edited"]
    assert first.count('class="pair of-3"') == 1
    drawn = re.findall(r'<use href="#([^"]+)"', first)
    assert len(set(drawn)) == 3


def test_the_first_screen_of_own_edits_without_a_control_shows_the_two_others() -> None:
    bare = Ledgered()
    for index in range(20):
        bare.add(f"source-{index}", "placebo", state="filtered", reason="gate-direction", result=None)
        bare.add(f"source-{index}", "intervention", slot=0, after=LOST)
    assert re.findall(r'class="which">([^<]+)<', first_screen(bare)) == ["Your image", "Edited"]


def test_beside_proposed_edits_the_control_is_that_of_the_edit_shown() -> None:
    both = Ledgered()
    for index in range(60):
        both.add(f"source-{index}", "reconstruction")
        both.add(f"source-{index}", "placebo")
        both.add(f"source-{index}", edit_type="background", after={"steady": 0.9, "leaning": 0.88})
    both.add("own", "placebo")
    both.add("own", "intervention", slot=0)
    hardest = both.add("bare", edit_type="background", after={"steady": 0.9, "leaning": 0.85})
    run = recorded_run(config(edits=5), both.items)
    page = render(summary(both, edits=5), run, both.items, both.world.store.get)
    first = page[page.index('id="verdict"') : page.index('id="models"')]
    assert f'id="item-{hardest.id}"' in first
    assert re.findall(r'class="which">([^<]+)<', first) == ["Your image", "Edited"]


def test_interventions_are_reported_even_if_no_proposed_edit_survived() -> None:
    first, *rest = summary(applied(3), edits=5).verdict.splitlines()
    assert first == "No proposed edit survived with its control."
    assert len(rest) == 4


def test_without_a_kept_image_there_is_no_verdict() -> None:
    ledgered = Ledgered()
    ledgered.add("a", "intervention", slot=0, state="filtered", reason="not-applicable", result=None)
    made = summary(ledgered)
    assert made.verdict.startswith("No verdict")
    assert made.interventions[0].sentences[0].endswith("no image was kept, so there is no result.")


def test_interventions_without_a_shown_drop_are_counted_in_one_line() -> None:
    request = stress_test_request(
        interventions=[*CHOSEN, *({"added": f"beside thing {n}"} for n in range(4))], max_edits_per_image=0
    )
    many = fake_config().model_copy(update={"request": request})
    items = applied(20).items
    lines = summarize(recorded_run(many, items), items).verdict.splitlines()
    assert lines[3].startswith("leaning: when “grass” becomes “snow”")
    assert lines[4:] == ["No drop was shown for 11 of 12 pairs of classifier and chosen edit."]


@pytest.mark.paper("LANCE-F9-apply-all")
def test_the_report_shows_effects_plot_words_and_images() -> None:
    text = report(applied(20))
    section = text.split("Your own edits")[1].split("Yield")[0]
    assert "“grass” becomes “snow” 20 of 20 planned 0 captions without the words" in section
    assert "sled loses most with leaning: p(true class) changes by −0.70" in section
    assert "reconstruction control" in section
    assert "20 sources" in section
    first = text.split("Your own edits")[0]
    assert "1 of 2 models breaks when one thing in the image changes." in first
    assert "leaning loses 100 points of accuracy on 20 images when “grass” becomes “snow”." in first
    assert "✗ breaks" in first
    assert "2 models, 40 edits" in text


def test_a_report_of_only_interventions_does_not_mention_edits() -> None:
    text = report(applied(3))
    for absent in ("No edit survived", "Which kind of change hurts", "Before and after", "Failure modes"):
        assert absent not in text
    assert "own edits: the caption contains the words to replace" in text


def test_a_report_without_interventions_has_no_interventions_section() -> None:
    edited = Ledgered()
    edited.stress(list("abcdefgh"), {"background": SHAKEN})
    run = recorded_run(fake_config(), edited.items)
    made = render(summarize(run, edited.items), run, edited.items, edited.world.store.get)
    assert "Your own edits" not in made
    assert "counterpose apply" in made
    assert "--finding 1<" in made
