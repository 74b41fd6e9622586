"""LANCE-R in summary and report: a baseline row next to the controls, never a finding."""

from __future__ import annotations

import pytest

from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from fakes.pages import text_of
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config

SHAKEN = {"steady": 0.9, "leaning": 0.2}
LOST = {"steady": 0.2, "leaning": 0.2}


def summary(ledgered: Ledgered) -> StressTestSummary:
    return summarize(recorded_run(fake_config(), ledgered.items), ledgered.items)


def report(ledgered: Ledgered) -> str:
    run = recorded_run(fake_config(), ledgered.items)
    made = render(summary(ledgered), run, ledgered.items, ledgered.world.store.get)
    return text_of(made)


def stressed(number: int) -> Ledgered:
    ledgered = Ledgered()
    ledgered.stress([f"source-{index}" for index in range(number)], {"background": SHAKEN})
    return ledgered


def with_baseline(number: int, *, shaken: int) -> Ledgered:
    """Sources of which the first ``shaken`` lose their class under LANCE-R."""
    ledgered = stressed(number)
    for index in range(number):
        ledgered.add(f"source-{index}", "lance-r", after=LOST if index < shaken else None)
    return ledgered


@pytest.mark.paper("LANCE-T2-shape")
def test_the_row_covers_sources_with_a_kept_baseline_image() -> None:
    ledgered = stressed(4)
    ledgered.add("source-0", "lance-r", after=LOST)
    ledgered.add("source-0", "lance-r")
    ledgered.add("source-1", "lance-r")
    ledgered.add("source-2", "lance-r", state="filtered", reason="gate-new-word")
    ledgered.add("no edit kept", "lance-r", after=LOST)
    model = summary(ledgered).models["steady"]
    assert model.lance_r is not None
    assert model.drop_lance_r is not None
    assert (model.lance_r.n_sources, model.lance_r.n_images) == (2, 3)
    assert model.lance_r.hit_rates[0].estimate == pytest.approx(0.75)
    assert model.drop_lance_r.estimate == pytest.approx(0.25)
    assert model.drop_lance_r.n == 2
    control = model.controls["lance-r"]
    assert (control.n_sources, control.n_images) == (3, 4)
    assert control.delta_p.estimate == pytest.approx(-0.7 * (0.5 + 0.0 + 1.0) / 3)


def test_a_run_without_the_baseline_has_no_baseline_row() -> None:
    made = summary(stressed(3))
    for model in made.models.values():
        assert (model.lance_r, model.drop_lance_r) == (None, None)
        assert set(model.controls) == {"reconstruction", "placebo"}
    assert not [name for name in made.yields if "lance-r" in name]
    assert "LANCE-R" not in report(stressed(3)).split("Which kind of change hurts")[0].split("Classifier")[1]


def test_the_baseline_leaves_the_rest_of_the_summary_unchanged() -> None:
    ledgered = with_baseline(21, shaken=21)
    ledgered.add("nothing else kept", "lance-r", before=LOST, after=LOST)
    without, beside = summary(stressed(21)), summary(ledgered)
    assert beside.verdict == without.verdict
    assert beside.insights == without.insights
    assert beside.edit_types == without.edit_types
    for name, model in without.models.items():
        told = beside.models[name]
        own: dict[str, object] = {"lance_r": None, "drop_lance_r": None, "controls": {}}
        assert told.model_copy(update=own) == model.model_copy(update=own)
        assert told.controls["placebo"] == model.controls["placebo"]
        assert told.controls["lance-r"].p is None
    shared = {name: share for name, share in beside.yields.items() if "lance-r" not in name}
    assert shared == without.yields


def test_the_yield_separates_words_found_from_images_kept() -> None:
    ledgered = with_baseline(2, shaken=1)
    ledgered.add("source-2", "lance-r", state="filtered", reason="gate-new-word")
    ledgered.add("source-3", "lance-r", state="filtered", reason="no-edit", result=None)
    ledgered.add("source-4", "lance-r", state="filtered", reason="another", result=None)
    ledgered.add("source-5", "lance-r", state="failed", code="backend-unavailable", result=None)
    made = summary(ledgered)
    names = ("lance-r.proposal", "lance-r.new-word", "kept.lance-r", "kept")
    assert [made.yields[name].estimate for name in names] == pytest.approx([4 / 5, 3 / 4, 2 / 5, 1.0])
    assert [made.yields[name].n for name in names] == [5, 4, 5, 2]
    assert made.dropped == {"gate-new-word": 1, "no-edit": 1, "another": 1}
    assert made.counts["planned"] == sum(made.counts.values()) - made.counts["planned"] == 12


def test_the_report_labels_the_row_as_a_baseline() -> None:
    text = report(with_baseline(20, shaken=10))
    assert "Original Reconstruction Placebo LANCE-R Counterfactual" in text
    assert "lance-r baseline" in text
    assert "50.0 %" in text.split("Which kind of change hurts")[0]
    assert "the image is closer to the new word than to the old" in text
