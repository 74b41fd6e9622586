"""The claims of a summary: cells and insights beyond their controls, corrected, or marked insufficient."""

from __future__ import annotations

import pytest

from counterpose_core.contract.groups import Grouping
from counterpose_core.contract.stress_tests import Insight, StressTestSummary
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config

STEADY, SHAKEN = {"steady": 0.9, "leaning": 0.9}, {"steady": 0.9, "leaning": 0.2}
ALL = {"steady": 0.2, "leaning": 0.2}


def summary(ledgered: Ledgered, **changes: object) -> StressTestSummary:
    return summarize(recorded_run(fake_config(**changes), ledgered.items), ledgered.items)


def sources(number: int) -> list[str]:
    return [f"source-{index}" for index in range(number)]


def shaken(number: int) -> Ledgered:
    ledgered = Ledgered()
    ledgered.stress(sources(number), {"background": SHAKEN})
    return ledgered


def of_classifier(made: StressTestSummary, name: str) -> list[Insight]:
    return [insight for insight in made.insights if insight.classifier == name]


def test_every_row_states_its_numbers_of_sources_and_images() -> None:
    ledgered = Ledgered()
    for index, source in enumerate(sources(4)):
        ledgered.add(source, "reconstruction")
        for _ in range(index + 1):
            ledgered.add(source, edit_type="background", after=SHAKEN)
    ledgered.add("source-0", "placebo", after=ALL)
    ledgered.add("no edit kept", "placebo")
    model = summary(ledgered).models["leaning"]
    assert model.placebo is not None
    assert model.overall is not None
    rows = (model.original, model.counterfactual, model.placebo, model.overall)
    assert [(row.n_sources, row.n_images) for row in rows] == [(4, 4), (4, 10), (1, 1), (4, 10)]
    assert model.placebo.hit_rates[0].estimate == 0.0


@pytest.mark.paper("LANCE-EQ3-dacc")
def test_the_papers_drop_is_unpaired_and_weights_images_equally() -> None:
    ledgered = Ledgered()
    ledgered.add("no edit kept", "reconstruction")
    for source, kept in (("few", 1), ("many", 9)):
        ledgered.add(source, "reconstruction")
        for _ in range(kept):
            ledgered.add(source, edit_type="background", after=SHAKEN if source == "few" else STEADY)
    model = summary(ledgered).models["leaning"]
    assert model.drop.estimate == pytest.approx(0.5)
    assert model.drop_paper is not None
    assert model.drop_paper.estimate == pytest.approx(0.1)
    assert model.drop_paper.n == 3


def test_the_drop_at_five_counts_labels_that_leave_the_top_five() -> None:
    ledgered = Ledgered()
    ledgered.stress(["a", "b"], {"background": {"steady": 0.2, "leaning": 0.01}})
    models = summary(ledgered).models
    five = {name: (model.second_drop, model.second_drop_paper) for name, model in models.items()}
    assert [figure.estimate for figure in five["leaning"] if figure] == [1.0, 1.0]
    assert [figure.estimate for figure in five["steady"] if figure] == [0.0, 0.0]


def test_cells_with_enough_sources_form_one_test_family() -> None:
    cell = summary(shaken(20)).models["leaning"].edit_types["background"]
    assert (cell.status, cell.significant) == ("significant", True)
    assert cell.p is not None
    assert cell.p_adjusted == pytest.approx(2 * cell.p)
    assert cell.family == "classifier x edit type, Holm at 0.05"
    assert cell.family_size == 2
    assert cell.beyond_controls is not None
    assert cell.beyond_controls.estimate == pytest.approx(0.7)


def test_a_cell_without_a_shown_drop_states_its_detectable_drop() -> None:
    cell = summary(shaken(20)).models["steady"].edit_types["background"]
    assert (cell.status, cell.significant, cell.p_adjusted) == ("not-shown", False, 1.0)
    assert cell.detectable_drop is not None
    assert 0.0 < cell.detectable_drop < 0.5


@pytest.mark.parametrize("number", [8, 20, 60])
@pytest.mark.parametrize("noise", [1e-4, 0.1])
def test_no_detectable_drop_is_finer_than_the_intervals_beside_it(number: int, noise: float) -> None:
    """Of few images that hardly change, the spread alone would promise to find a thousandth."""
    ledgered = Ledgered()
    for index, source in enumerate(sources(number)):
        p_after = 0.8 + noise * (index % 3 - 1)
        ledgered.add(source, "reconstruction")
        ledgered.add(source, "placebo", after={"steady": 0.8, "leaning": 0.8})
        ledgered.add(source, edit_type="background", after={"steady": p_after, "leaning": p_after})
    model = summary(ledgered).models["steady"]
    for cell in (model.overall, model.edit_types["background"]):
        assert cell is not None
        loss, change = cell.beyond_controls, cell.delta_p
        assert loss is not None
        assert cell.detectable_drop is not None
        assert cell.detectable_drop >= (loss.high or 0.0) - (loss.estimate or 0.0)
        assert cell.detectable_drop >= (change.estimate or 0.0) - (change.low or 0.0)
        assert cell.detectable_drop > 0.1 or number > 8


def test_a_cell_with_few_sources_is_insufficient_and_untested() -> None:
    cells = summary(shaken(5)).models["leaning"].edit_types
    assert cells["background"].status == cells["domain"].status == "insufficient"
    assert not cells["background"].significant
    assert cells["background"].p is not None
    assert cells["background"].p_adjusted is None
    assert cells["background"].family_size == 0
    assert cells["domain"].p is None
    # The two classifiers' cells take 6 sources with one edit each, 2^-6 < 0.05 / 2; a third one also takes 6.
    assert (cells["background"].sources_needed, cells["domain"].sources_needed) == (6, 6)


def test_the_frames_of_one_video_count_as_one_source() -> None:
    """Forty frames of four videos give a p of 2^-4 at least, and intervals over four units."""
    ledgered = shaken(40)
    groups = {source: f"video-{index % 4}" for index, source in enumerate(sources(40))}
    grouping = Grouping(groups=groups, named=40)
    alone, grouped = (
        summarize(recorded_run(config, ledgered.items), ledgered.items).models["leaning"]
        for config in (fake_config(), fake_config().model_copy(update={"grouping": grouping}))
    )
    assert alone.overall is not None
    assert grouped.overall is not None
    assert alone.overall.p is not None
    assert alone.overall.p < 0.001
    assert grouped.overall.p == pytest.approx(2**-4)
    assert grouped.overall.status == "insufficient"
    assert (grouped.drop.n, grouped.overall.delta_p.n, grouped.overall.n_sources) == (4, 4, 40)
    assert grouped.drop.estimate == alone.drop.estimate
    assert grouped.drop.low is not None
    assert alone.drop.low is not None
    assert grouped.drop.low < alone.drop.low


def test_without_placebos_nothing_is_tested() -> None:
    ledgered = Ledgered()
    for source in sources(25):
        ledgered.add(source, "reconstruction")
        ledgered.add(source, edit_type="background", after=SHAKEN)
    made = summary(ledgered)
    cell = made.models["leaning"].edit_types["background"]
    assert (cell.status, cell.p, cell.beyond_controls) == ("insufficient", None, None)
    assert "without placebos to compare with, this is only a hint" in made.insights[0].sentence


def test_edits_as_harmful_as_placebos_show_no_drop() -> None:
    ledgered = Ledgered()
    for source in sources(25):
        ledgered.add(source, "reconstruction")
        ledgered.add(source, "placebo", after=SHAKEN)
        ledgered.add(source, edit_type="background", after=SHAKEN)
    made = summary(ledgered)
    cell = made.models["leaning"].edit_types["background"]
    assert cell.status == "not-shown"
    assert cell.p == 1.0
    assert cell.delta_p.high is not None
    assert cell.delta_p.high < 0
    assert not any(insight.significant for insight in made.insights)
    assert made.verdicts[0].state == "test-unfit"
    assert "A change of wording alone changes 100 % of leaning's answers" in made.verdict


def test_every_word_change_of_every_classifier_counts_in_the_test_family() -> None:
    ledgered = Ledgered()
    ledgered.stress(sources(24), {"background": SHAKEN, "domain": STEADY, "adjective": STEADY})
    made = summary(ledgered)
    [insight] = of_classifier(made, "leaning")
    assert insight.significant
    assert insight.family == "classifier x class x words, Benjamini-Hochberg at 0.10"
    assert insight.family_size == 6
    assert insight.p is not None
    assert insight.p_adjusted == pytest.approx(6 * insight.p)
    assert (insight.n_sources, insight.n_images) == (24, 24)
    assert "p(sled) falls by 0.70 (95 % interval 0.43 to 0.75, n=24) beyond the controls" in insight.sentence
    assert "p < 0.001, corrected for 6 changes tested" in insight.sentence
    assert "leaning takes sleds for boats once “grass” becomes “snow”: 24 of 24 images." in made.verdict


def test_insights_of_small_runs_are_untested_hints() -> None:
    made = summary(shaken(4))
    [insight] = made.insights
    assert (insight.status, insight.significant, insight.p_adjusted) == ("insufficient", False, None)
    assert insight.p == pytest.approx(2**-4)
    assert "so this is only a hint" in insight.sentence
    assert insight.sentence not in made.verdict
    assert (
        "No change of words could be tested: the largest group has 4 sources, a test takes 5." in made.verdict
    )


def test_findings_come_before_hints_with_larger_drops() -> None:
    ledgered = Ledgered()
    ledgered.stress(sources(24), {"background": {"steady": 0.9, "leaning": 0.5}})
    for source in sources(4):
        ledgered.add(source, edit_type="domain", after=SHAKEN)
    first, second = of_classifier(summary(ledgered), "leaning")
    assert (first.edit_type, first.status) == ("background", "significant")
    assert (second.edit_type, second.status) == ("domain", "insufficient")
    assert second.delta_p.estimate is not None
    assert first.delta_p.estimate is not None
    assert second.delta_p.estimate < first.delta_p.estimate


def test_an_unproven_drop_is_reported_as_a_hint() -> None:
    ledgered = Ledgered()
    for index, source in enumerate(sources(20)):
        ledgered.add(source, "reconstruction")
        ledgered.add(source, "placebo")
        ledgered.add(
            source, edit_type="background", after={"steady": 0.9, "leaning": 0.2 + 0.7 * (index > 0)}
        )
    [insight] = of_classifier(summary(ledgered), "leaning")
    assert insight.status == "not-shown"
    assert "not shown beyond the controls, so this is only a hint" in insight.sentence


@pytest.mark.parametrize(("p_after", "n", "found"), [(0.86, 24, False), (0.84, 24, False), (0.84, 160, True)])
def test_a_significant_but_small_drop_is_not_a_finding(p_after: float, n: int, found: bool) -> None:
    """Nor is one whose intervals hold 0: those of few images do, however sure relabelling is."""
    ledgered = Ledgered()
    ledgered.stress(sources(n), {"background": {"steady": 0.9, "leaning": p_after}})
    made = summary(ledgered)
    [insight] = of_classifier(made, "leaning")
    assert insight.significant is found
    assert insight.beyond_controls is not None
    ends = insight.beyond_controls.low or 0.0, -(insight.delta_p.high or 0.0)
    assert [end > 0.0 for end in ends] == [found, found]
    assert insight.p_adjusted is not None
    assert insight.p_adjusted < 0.001
    assert insight.detectable_drop is not None
    assert insight.detectable_drop >= 0.05
    cell = made.models["leaning"].edit_types["background"]
    too_small = "a loss below 0.05 counts for nothing"
    assert cell.beyond_controls is not None
    low, high = cell.beyond_controls.low, cell.beyond_controls.high
    denied = f"its interval beyond the controls, {low:.2f} to {high:.2f}, includes 0"
    assert cell.why_not_shown == ("" if found else too_small if p_after > 0.85 else denied)


def test_a_sure_and_tiny_loss_is_shown_in_no_cell() -> None:
    """The intervals leave out 0, so that the least loss alone keeps the cells from being shown."""
    ledgered = Ledgered()
    ledgered.stress(sources(160), {"background": {"steady": 0.9, "leaning": 0.86}})
    made = summary(ledgered)
    model = made.models["leaning"]
    [insight] = of_classifier(made, "leaning")
    for cell in (model.overall, model.edit_types["background"], insight):
        assert cell is not None
        assert cell.p_adjusted is not None
        assert cell.p_adjusted < 0.001
        assert cell.beyond_controls is not None
        assert (cell.beyond_controls.low or 0.0) > 0.0
        assert (cell.delta_p.high or 0.0) < 0.0
        assert (cell.status, cell.significant) == ("not-shown", False)


def test_reconstruction_changes_are_counted_in_both_directions() -> None:
    ledgered = Ledgered()
    for index, source in enumerate(sources(10)):
        before = {"steady": 0.9, "leaning": 0.2 if index == 0 else 0.9}
        after = {"steady": 0.9, "leaning": 0.2 if index == 1 else 0.9}
        ledgered.add(source, "reconstruction", before=before, after=after)
    models = summary(ledgered).models
    assert models["leaning"].changed_by_reconstruction is not None
    assert models["leaning"].changed_by_reconstruction.estimate == pytest.approx(0.2)
    assert models["steady"].changed_by_reconstruction is not None
    assert models["steady"].changed_by_reconstruction.estimate == 0.0


def test_failure_modes_are_counted_over_kept_edits() -> None:
    ledgered = Ledgered()
    ledgered.stress(sources(5), {"background": ALL, "domain": STEADY})
    ledgered.add("source-0", edit_type="background", state="filtered", reason="gate-direction", after=ALL)
    modes = summary(ledgered).failure_modes
    assert set(modes) == {
        "label-incompatible", "poor-quality", "changed-truth", "inherited-bias", "meaningless-edit",
    }  # fmt: skip
    changed = modes["changed-truth"]
    assert changed.count == len(changed.example_items) == 5
    assert changed.share.estimate == pytest.approx(0.5)
    assert changed.share.n == 10
    assert "answer one and the same other class" in changed.rule
    assert modes["inherited-bias"].share == Estimate(
        estimate=0.0, low=0.0, high=modes["inherited-bias"].share.high, n=10
    )
