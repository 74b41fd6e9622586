"""Findings by hand in the summary and the report of a run, for tests of what is shown of them."""

from __future__ import annotations

from counterpose_core.contract.findings import Finding
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.methods.stress_test.summary.headline import verdict_text
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.methods.stress_test.summary.verdict import classifier_verdicts
from fakes.findings import a_confirmation, a_finding, a_pair
from fakes.recorder import recorded_run
from fakes.results import Ledgered, fake_config

SHAKEN = {"steady": 0.9, "leaning": 0.2}


def shaken(number: int = 4) -> Ledgered:
    """Sources whose background edit shakes ``leaning``, each with its controls."""
    ledgered = Ledgered()
    ledgered.stress([f"source-{index}" for index in range(number)], {"background": SHAKEN})
    return ledgered


def pairs(ledgered: Ledgered) -> list[tuple[str, str]]:
    """Edit and placebo of each source."""
    edits = {item.item_group: item.id for item in ledgered.items if item.kind == "edit"}
    placebos = {item.item_group: item.id for item in ledgered.items if item.kind == "placebo"}
    return [(edit, placebos[source]) for source, edit in edits.items()]


def with_findings(ledgered: Ledgered, *findings: Finding) -> StressTestSummary:
    """The summary of such a run with these findings and their verdicts."""
    made = summarize(recorded_run(fake_config(), ledgered.items), ledgered.items)
    verdicts = classifier_verdicts(made.models, findings)
    verdict = verdict_text(verdicts, findings, made.insights, made.counts)
    return made.model_copy(update={"findings": list(findings), "verdicts": verdicts, "verdict": verdict})


def page(ledgered: Ledgered, *findings: Finding) -> str:
    """The report of such a run."""
    run = recorded_run(fake_config(), ledgered.items)
    return render(with_findings(ledgered, *findings), run, ledgered.items, ledgered.world.store.get)


def confirmed(ledgered: Ledgered, **changes: object) -> Finding:
    """A finding of all its pairs that was proven."""
    known = [a_pair(edit, placebo) for edit, placebo in pairs(ledgered)]
    return a_finding(state="breaks", confirmed=a_confirmation(), pairs=known, **changes)
