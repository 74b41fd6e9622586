"""The summary of a finished run: pairing, controls, insights, accounting, and the wording of the verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config

SCHEMA = Path(__file__).parents[5] / "demo" / "summary.schema.json"
STEADY, SHAKEN = {"steady": 0.9, "leaning": 0.9}, {"steady": 0.9, "leaning": 0.2}


def summary(ledgered: Ledgered, **changes: object) -> StressTestSummary:
    return summarize(recorded_run(fake_config(**changes), ledgered.items), ledgered.items)


def sources(number: int) -> list[str]:
    return [f"source-{index}" for index in range(number)]


def about(figure: Estimate, estimate: float, n: int) -> bool:
    assert figure.low is not None
    assert figure.high is not None
    return figure.n == n and figure.estimate == pytest.approx(estimate) and figure.low < figure.high


def test_the_checked_in_schema_matches_the_contract() -> None:
    schema = StressTestSummary.model_json_schema(by_alias=True, mode="serialization")
    written = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert written == schema, f"write json.dumps(schema, indent=2) to {SCHEMA.name}"


def test_a_summary_validates_against_its_schema_and_round_trips() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    ledgered = Ledgered()
    ledgered.stress(sources(3), {"background": SHAKEN})
    made = summary(ledgered)
    body = json.loads(made.model_dump_json(by_alias=True))
    jsonschema.validate(body, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert StressTestSummary.model_validate(body) == made


def test_the_summary_is_deterministic() -> None:
    ledgered = Ledgered()
    ledgered.stress(sources(25), {"background": SHAKEN, "domain": STEADY})
    assert summary(ledgered) == summary(ledgered)


@pytest.mark.paper("LANCE-S4.1-dacc-paired")
def test_each_source_has_equal_weight_whatever_its_number_of_edits() -> None:
    ledgered = Ledgered()
    for source, kept in (("few", 1), ("many", 9)):
        ledgered.add(source, "reconstruction")
        for _ in range(kept):
            ledgered.add(source, edit_type="background", after=SHAKEN if source == "few" else STEADY)
    model = summary(ledgered).models["leaning"]
    assert about(model.counterfactual.hit_rates[0], 0.5, 2)
    assert about(model.drop, 0.5, 2)
    assert model.counterfactual.n_images == 10


@pytest.mark.paper("LANCE-B-original", "LANCE-B-reconstruction", "LANCE-T2-shape")
def test_the_three_rows_cover_the_same_sources() -> None:
    ledgered = Ledgered()
    ledgered.stress(sources(5), {"background": SHAKEN})
    ledgered.add("no edit kept", "reconstruction", before={"steady": 0.1, "leaning": 0.1})
    ledgered.add("no reconstruction", edit_type="background", before={"steady": 0.1, "leaning": 0.1})
    model = summary(ledgered).models["steady"]
    assert about(model.original.hit_rates[0], 1.0, 5)
    assert about(model.reconstruction.hit_rates[0], 1.0, 5)
    assert about(model.counterfactual.hit_rates[0], 1.0, 5)


@pytest.mark.paper("LANCE-S4.1-delta-p", "LANCE-F3-sensitivity")
def test_sensitivity_is_signed_and_absolute_by_edit_type() -> None:
    ledgered = Ledgered()
    for index, source in enumerate(sources(4)):
        after = {"steady": 0.9, "leaning": 0.4 if index % 2 else 0.95}
        ledgered.add(source, edit_type="background", after=after)
        ledgered.add(source, edit_type="domain", after=STEADY)
    leaning = summary(ledgered).models["leaning"].edit_types
    assert about(leaning["background"].delta_p, -0.225, 4)
    assert about(leaning["background"].abs_delta_p, 0.275, 4)
    assert about(leaning["background"].drop, 0.5, 4)
    assert about(leaning["domain"].delta_p, 0.0, 4)
    assert leaning["adjective"].delta_p.estimate is None
    both = summary(ledgered).edit_types["background"]
    assert about(both.delta_p, -0.1125, 4)
    assert both.n_images == 4


@pytest.mark.paper("LANCE-T2-shape")
def test_acc5_counts_ranks_up_to_five() -> None:
    ledgered = Ledgered()
    ledgered.stress(["a"], {"background": {"steady": 0.2, "leaning": 0.01}})
    models = summary(ledgered).models
    assert models["steady"].counterfactual.hit_rates[1].estimate == 1.0
    assert models["leaning"].counterfactual.hit_rates[1].estimate == 0.0


@pytest.mark.paper("LANCE-A1-14-collect")
def test_counts_add_up_and_name_every_loss() -> None:
    ledgered = Ledgered()
    ledgered.stress(sources(2), {"background": SHAKEN})
    ledgered.add("source-0", edit_type="domain", state="filtered", reason="gate-direction")
    ledgered.add("source-0", edit_type="object", state="filtered", reason="no-edit", result=None)
    ledgered.add("source-1", edit_type="domain", state="failed", code="bad-backend-output", result=None)
    ledgered.add("source-1", edit_type="object", state="cancelled", result=None)
    ledgered.add("source-1", edit_type="subject", state="leased", result=None)
    made = summary(ledgered)
    assert made.counts == {
        "planned": 11, "done": 6, "filtered": 2, "failed": 1, "cancelled": 1, "pending": 1,
    }  # fmt: skip
    assert made.dropped == {"gate-direction": 1, "no-edit": 1}
    assert made.failed_codes == {"bad-backend-output": 1}
    assert "3 of 11 planned items" in made.verdict


def test_yields_follow_the_order_of_the_filters() -> None:
    ledgered = Ledgered()
    for source in sources(4):
        ledgered.add(source, edit_type="background")
        ledgered.add(source, edit_type="subject", state="filtered", reason="label-in-edit", result=None)
        ledgered.add(source, edit_type="object", state="filtered", reason="no-edit", result=None)
        ledgered.add(source, edit_type="domain", state="filtered", reason="gate-closer")
        ledgered.add(source, edit_type="adjective", state="failed", code="x", result=None)
        ledgered.add(source, "placebo", state="filtered", reason="gate-image-image")
    yields = summary(ledgered).yields
    assert about(yields["proposal"], 0.75, 16)
    assert about(yields["label"], 2 / 3, 12)
    assert about(yields["image-image"], 1.0, 8)
    assert about(yields["closer"], 0.5, 8)
    assert about(yields["kept"], 0.25, 16)
    assert about(yields["kept.background"], 1.0, 4)
    assert "kept.adjective" not in yields


def test_cost_and_time_are_summed_over_items() -> None:
    ledgered = Ledgered()
    ledgered.stress(["a"], {"background": SHAKEN})
    made = summary(ledgered)
    assert made.cost.unet_evaluations == 30
    assert made.service_seconds == {"editor": 4.5, "scorer": 0.75}
    assert made.wall_s == 90.0


@pytest.mark.paper("LANCE-S4.2-insights")
def test_a_harmful_change_of_a_class_becomes_an_insight() -> None:
    ledgered = Ledgered()
    ledgered.stress(sources(4), {"background": SHAKEN, "adjective": STEADY})
    [insight] = summary(ledgered).insights
    assert (insight.classifier, insight.object_class, insight.edit_type) == ("leaning", "sled", "background")
    assert (insight.removed, insight.added) == ("grass", "snow")
    assert insight.delta_p.n == 4
    assert "when “grass” becomes “snow”, p(sled) changes by −0.70 (n=4)" in insight.sentence
    assert insight.example_item in {item.id for item in ledgered.items}


def test_two_sources_are_too_few_for_an_insight() -> None:
    ledgered = Ledgered()
    ledgered.stress(sources(2), {"background": SHAKEN})
    assert summary(ledgered).insights == []


def test_the_drop_beyond_the_control_is_paired_and_corrected_over_models() -> None:
    ledgered = Ledgered()
    ledgered.stress(sources(30), {"background": SHAKEN})
    models = summary(ledgered).models
    assert models["leaning"].beyond_control is not None
    assert about(models["leaning"].beyond_control, 1.0, 30)
    assert models["leaning"].p is not None
    assert models["leaning"].beyond_placebo is not None
    assert about(models["leaning"].beyond_placebo, 1.0, 30)
    # Losses and gains of two models.
    assert models["leaning"].family_size == 4
    assert models["leaning"].p_adjusted == pytest.approx(4 * models["leaning"].p)
    assert models["steady"].p == models["steady"].p_adjusted == 1.0


def test_a_run_without_kept_edits_has_no_verdict_and_no_figures() -> None:
    ledgered = Ledgered()
    for source in sources(3):
        ledgered.add(source, "reconstruction")
        ledgered.add(source, edit_type="background", state="filtered", reason="gate-direction")
    made = summary(ledgered)
    assert made.verdict.startswith("No verdict: no edit of 6 planned items survived")
    assert made.models["steady"].drop.estimate is None
    assert made.models["steady"].original.hit_rates[0].n == 0
    assert made.insights == []
    assert made.yields["kept"].estimate == 0.0


def test_an_unfinished_run_has_a_summary() -> None:
    ledgered = Ledgered()
    ledgered.add("a", "reconstruction", state="pending", result=None)
    run = recorded_run(fake_config(), ledgered.items).model_copy(
        update={"started_at": None, "ended_at": None}
    )
    made = summarize(run, ledgered.items)
    assert made.counts["pending"] == 1
    assert made.wall_s == 0.0
