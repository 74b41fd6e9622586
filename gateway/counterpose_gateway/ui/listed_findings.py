"""The findings that a stress test lists, with the numbers by which pages and commands name them."""

from __future__ import annotations

from counterpose_core.contract.findings import Finding
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.errors import NotFound
from counterpose_gateway.methods.stress_test.columns import read_columns
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.report.findings import findings_of
from counterpose_gateway.methods.stress_test.summary.findings import under_test
from counterpose_gateway.routes.context import GatewayContext
from counterpose_gateway.summaries.summaries import summary_of


def listed_findings(
    run: Run, context: GatewayContext, summary: StressTestSummary | None = None
) -> list[Finding]:
    """The findings of a run as its report numbers them; of the ``summary`` given, or of the current one."""
    if run.kind != STRESS_TEST.kind:
        return []
    figures = summary or summary_of(STRESS_TEST, run.id, None, context)
    if figures.findings:
        return list(figures.findings)
    key = ("findings", run.id, context.ledger.events.last(run.id).id)
    return context.cache.get(key, lambda: findings_of(figures, read_columns(run, context.ledger)))


def findings_under_test(run: Run, context: GatewayContext) -> list[Finding]:
    """The changes that a stress test tests while it goes on, as far as its screen has seen them."""
    config = StressTestConfig.model_validate(run.resolved_config)
    columns = read_columns(run, context.ledger, context.columns)
    return under_test(run, columns, config)


def finding_of(run: Run, number: int, context: GatewayContext) -> Finding:
    """One finding by its number.

    Raises:
        NotFound: the run has no such finding.
    """
    found = listed_findings(run, context)
    for finding in found:
        if finding.number == number:
            return finding
    raise NotFound(f"run {run.id!r} has no finding {number}: it has {len(found)}")
