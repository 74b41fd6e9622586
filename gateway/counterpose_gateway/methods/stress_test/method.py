"""The stress test (LANCE) as a method of the gateway."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate, StressTestSummary
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_core.types import RunKind
from counterpose_gateway.exports import Card, Record
from counterpose_gateway.exports.method import ExportChoice
from counterpose_gateway.methods.stress_test import proof_stages
from counterpose_gateway.methods.stress_test.columns import keep_parts, read_columns
from counterpose_gateway.methods.stress_test.export import counterfactual_card, counterfactual_records
from counterpose_gateway.methods.stress_test.pairs import counterfactual_pairs
from counterpose_gateway.methods.stress_test.plan import plan, rest_of_plan
from counterpose_gateway.methods.stress_test.process import process
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.methods.stress_test.report.shown_items import MOST_READ, shown_items
from counterpose_gateway.methods.stress_test.stages import next_stage
from counterpose_gateway.methods.stress_test.suite_fit import look
from counterpose_gateway.methods.stress_test.summary.proof_summary import revision_of_proof, with_proof
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.methods.stress_test.thresholds import judging_of, summarize_again
from counterpose_gateway.runs.context import ItemsOfRun, RecordedRuns, RunContext, RunLedger
from counterpose_gateway.runs.items import LeasedGroup, Plan, PlannedItem, Recorder
from counterpose_gateway.runs.large_plans import PlanInputs
from counterpose_gateway.runs.looks import Look
from counterpose_gateway.runs.stages import StagePlan, StageResults
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services


class StressTest:
    """The method of stress tests; `counterpose_gateway.runs.method.Method` says what each function does."""

    kind: RunKind = "stress-test"
    item = Item

    async def plan(self, create: StressTestCreate, context: RunContext) -> Plan:
        """Plan every slot of every source."""
        return await plan(create, context)

    def rest_of_plan(self, run: Run, inputs: PlanInputs, first: int) -> Iterator[PlannedItem]:
        """Plan the slots from the ordinal ``first`` on again."""
        return rest_of_plan(run, inputs, first)

    def next_stage(self, run: Run, results: StageResults) -> StagePlan | None:
        """Plan the pairs of fresh sources that confirm what the screen saw, or prove one finding."""
        config = StressTestConfig.model_validate(run.resolved_config)
        if config.proof is not None:
            return proof_stages.next_stage(run, config, results.recorded())
        return next_stage(run, results.recorded())

    async def process(
        self, group: LeasedGroup, *, services: Services, record: Recorder, store: Store
    ) -> None:
        """Work through one source by LANCE's Algorithm 1."""
        await process(group, services=services, record=record, store=store)

    def look(self, group: LeasedGroup, ledger: RunLedger) -> Look:
        """Stop a run whose first images lie outside what its suite knows."""
        return look(group, ledger)

    def revision(self, run_id: str, context: RecordedRuns) -> Hashable:
        """Return the events of the runs that a child run joins; the figures of others depend on none."""
        return revision_of_proof(context.ledger.run(run_id), context.ledger)

    def summarize(
        self, run: Run, items: Iterable[Item], view: Thresholds | None, context: RecordedRuns
    ) -> StressTestSummary:
        """Sum up accuracies, sensitivities, insights and yields, with a verdict; of a child, its finding.

        ``view`` are thresholds to judge the recorded scores by; None for the run's own.
        """
        if view is not None:
            return summarize_again(run, items, view)
        summary = summarize(run, read_columns(run, context.ledger, context.columns))
        return with_proof(summary, run, context.ledger)

    def keep_columns(self, run: Run, context: RecordedRuns) -> int:
        """Keep columns of items that have ended."""
        return 0 if context.columns is None else keep_parts(run, context.ledger, context.columns)

    def report(
        self,
        summary: StressTestSummary,
        run: Run,
        items: Iterable[Item],
        read_image: Callable[[str], bytes],
    ) -> str:
        """Write the report with the pairs that show each insight best."""
        judging = judging_of(summary)
        if isinstance(items, ItemsOfRun) and run.request_counts.total > MOST_READ:
            return render(summary, run, shown_items(summary, run, items, judging), read_image)
        return render(summary, run, list(items if judging is None else judging.items(items)), read_image)

    def pairs(self, run: Run, context: RecordedRuns) -> Iterator[FrozenPair]:
        """Return the kept counterfactuals with their source images."""
        return counterfactual_pairs(run, context.ledger.items_of(run.id, Item))

    def export(
        self, summary: StressTestSummary, items: Iterable[Item], choice: ExportChoice
    ) -> tuple[Card, Iterator[Record]]:
        """Return the counterfactuals."""
        judging = judging_of(summary)
        judged = items if judging is None else judging.items(items)
        records = counterfactual_records(summary, judged, dropped=choice.dropped)
        return counterfactual_card(summary, dropped=choice.dropped), records


STRESS_TEST = StressTest()
