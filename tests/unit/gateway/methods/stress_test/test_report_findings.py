"""The report's tables of tests: rows, the result of each cell, hints and findings, failure modes."""

from __future__ import annotations

from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.methods.stress_test.summary.summary import SECTIONS, summarize
from counterpose_gateway.reports.environment import TEMPLATES
from fakes.pages import text_of
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config

SHAKEN = {"steady": 0.9, "leaning": 0.2}
NEWER = ("placebo", "overall", "drop_paper", "second_drop_paper", "second_drop", "changed_by_reconstruction")


def shaken(sources: int) -> Ledgered:
    ledgered = Ledgered()
    ledgered.stress([f"source-{index}" for index in range(sources)], {"background": SHAKEN})
    return ledgered


def report(ledgered: Ledgered, summary: StressTestSummary | None = None) -> str:
    run = recorded_run(fake_config(), ledgered.items)
    html = render(summary or summarize(run, ledgered.items), run, ledgered.items, ledgered.world.store.get)
    return text_of(html)


def test_the_drops_table_includes_the_papers_drop() -> None:
    text = report(shaken(20))
    for word in ("Original Reconstruction Placebo Counterfactual", "The paper's drop", "all kinds together"):
        assert word in text
    assert "20 sources, 20 images" in text
    assert "Answers changed by reconstruction" in text


def test_every_cell_states_its_test_result() -> None:
    text = report(shaken(20))
    assert "p < 0.001, corrected for 2 tests, shown" in text
    assert "p 1.000, corrected for 2 tests, not shown a drop of 0." in text
    assert "not tested: no placebos" in text
    assert "not tested: a test takes 6 sources" in report(shaken(5))


def test_a_cell_shows_no_loss_that_is_too_small_to_count() -> None:
    ledgered = Ledgered()
    sources = [f"source-{index}" for index in range(400)]
    ledgered.stress(sources, {"background": {"steady": 0.9, "leaning": 0.87}})
    summary = summarize(recorded_run(fake_config(), ledgered.items), ledgered.items)
    cell = summary.models["leaning"].edit_types["background"]
    assert cell.p_adjusted is not None
    assert cell.p_adjusted < 0.001
    assert cell.delta_p.high is not None
    assert cell.delta_p.high < 0.0
    assert (cell.status, cell.why_not_shown) == ("not-shown", "a loss below 0.05 counts for nothing")
    assert "not shown: a loss below 0.05 counts for nothing" in report(ledgered, summary)


def test_tested_changes_and_suspicions_have_different_badges() -> None:
    assert "✗ breaks 20 of 20 leaning takes" in report(shaken(20))
    assert "? suspected 4 of 4 leaning takes" in report(shaken(4))
    assert "breaks" not in report(shaken(4))


def test_cells_without_placebos_say_so() -> None:
    ledgered = shaken(20)
    ledgered.items = [item for item in ledgered.items if item.kind != "placebo"]
    assert "not tested: no placebos" in report(ledgered)


def test_failure_modes_are_listed_with_their_rule() -> None:
    text = report(shaken(5))
    assert "Failure modes" in text
    assert "changed truth two or more classifiers, all right before" in text


def test_every_section_is_a_field_of_the_summary_with_a_template() -> None:
    # A reader ignores unknown fields: a section without one would be computed and lost.
    assert set(SECTIONS) <= StressTestSummary.model_fields.keys()
    templates = [name for name in TEMPLATES.list_templates() if name.startswith("stress_test/sections/")]
    assert sorted(templates) == sorted(f"stress_test/sections/{name}.html.j2" for name in SECTIONS)


def test_a_summary_without_these_figures_has_a_report() -> None:
    ledgered = shaken(3)
    made = summarize(recorded_run(fake_config(), ledgered.items), ledgered.items)
    body = made.model_dump(by_alias=True, exclude={"failure_modes": True})
    for model in body["models"].values():
        for field in NEWER:
            del model[field]
    assert "Accuracy" in report(ledgered, StressTestSummary.model_validate(body))
