"""The stress test (LANCE) as a method of the gateway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_args

from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate, StressTestSummary
from counterpose_core.errors import InvalidRequest, PriceMissing, UnknownDataset, UnknownEditType
from counterpose_core.stress_test.item_counts import LAST_STAGE, most_items
from counterpose_core.suite import Suite
from counterpose_core.types import FINAL_RUN_STATES, ItemKind
from counterpose_gateway.methods.stress_test.columns import keep_parts, read_columns
from counterpose_gateway.methods.stress_test.confirm import proof_stages
from counterpose_gateway.methods.stress_test.confirm.images_left import least_pairs_of, pairs_left
from counterpose_gateway.methods.stress_test.confirm.outlook import hopeless_of
from counterpose_gateway.methods.stress_test.confirm.proof_summary import with_proof
from counterpose_gateway.methods.stress_test.confirm.stages import next_stage
from counterpose_gateway.methods.stress_test.export import export
from counterpose_gateway.methods.stress_test.pairs import counterfactual_pairs
from counterpose_gateway.methods.stress_test.plan import plan, rest_of_plan
from counterpose_gateway.methods.stress_test.process import process
from counterpose_gateway.methods.stress_test.report.findings import findings_of
from counterpose_gateway.methods.stress_test.report.operations import render_operations
from counterpose_gateway.methods.stress_test.report.report import render
from counterpose_gateway.methods.stress_test.report.shown_items import MOST_READ, shown_items
from counterpose_gateway.methods.stress_test.screen.suite_fit import look
from counterpose_gateway.methods.stress_test.summary.joined_runs import revision_of_proof
from counterpose_gateway.methods.stress_test.summary.mixed import with_operations_beside
from counterpose_gateway.methods.stress_test.summary.summary import summarize
from counterpose_gateway.methods.stress_test.thresholds import judging_of, summarize_again
from counterpose_gateway.methods.stress_test.transforms.process import OPERATIONS
from counterpose_gateway.methods.stress_test.transforms.severity import stages as severity_stages
from counterpose_gateway.methods.stress_test.transforms.summary import summarize_operations
from counterpose_gateway.runs.context import ItemsOfRun, RecordedRuns
from counterpose_gateway.runs.method import Headline, Method, ReadImage
from counterpose_gateway.runs.stages import StagePlan, StageResults


def _next_stage(run: Run, results: StageResults) -> StagePlan | None:
    """Plan the pairs of fresh sources that confirm what the screen saw, or prove one finding."""
    config = StressTestConfig.model_validate(run.resolved_config)
    if not config.edits_captions:
        return severity_stages.next_stage(run, results.recorded())
    # Beside edits, operations have no later stage, and none of an edit may be planned by them.
    edits = (item for item in results.recorded() if item.kind != OPERATIONS)
    if config.proof is not None:
        return proof_stages.next_stage(run, config, edits)
    return next_stage(run, edits)


def _most_items(run: Run) -> int:
    """Return the most items of a run: what its later stages may add is in its configuration."""
    planned, config = run.request_counts.total, StressTestConfig.model_validate(run.resolved_config)
    if config.transforms is not None and config.transforms.is_adaptive and run.stage == 1:
        return 2 * planned
    if config.proof is not None and run.stage == 1:
        return planned + 2 * config.proof.images
    plan = config.confirmation
    if plan is None or plan.reason is not None or run.stage >= LAST_STAGE:
        return planned
    return most_items(config.request, plan)


def _summarize(
    run: Run, items: Iterable[Item], view: Thresholds | None, context: RecordedRuns
) -> StressTestSummary:
    """Sum up accuracies, sensitivities, insights and yields, with a verdict; of a child, its finding.

    ``view`` are thresholds to judge the recorded scores by; None for the run's own.
    """
    config = StressTestConfig.model_validate(run.resolved_config)
    if not config.edits_captions:
        if view is not None:
            raise InvalidRequest("operations on images are judged by no threshold; leave them out")
        return with_proof(_of_operations(run, items, config, context), run, context.ledger)
    if view is not None and config.transforms is None:
        return summarize_again(run, items, view)
    columns = read_columns(run, context.ledger, context.columns)
    summary = summarize(run, columns) if view is None else summarize_again(run, items, view)
    if config.proof is not None:
        return with_proof(summary, run, context.ledger)
    findings = findings_of(summary, columns)
    if view is None and run.parent is None:
        left = pairs_left(run, findings, columns, context.ledger)
        least, hopeless = least_pairs_of(findings, left), hopeless_of(findings, left)
        update = {"pairs_left": left, "least_pairs": least, "hopeless": hopeless}
        summary = summary.model_copy(update=update)
    if config.transforms is None:
        return summary
    operations = _of_operations(run, items, config, context, after=len(findings))
    return with_operations_beside(summary, operations)


def _of_operations(
    run: Run, items: Iterable[Item], config: StressTestConfig, context: RecordedRuns, after: int = 0
) -> StressTestSummary:
    table = None
    # No pairs but those that were given can be made.
    is_given = config.transforms is not None and config.transforms.given is not None
    if run.state in FINAL_RUN_STATES and config.operation_proof is None and not is_given:
        with suppress(UnknownDataset):
            digest = context.ledger.datasets.get(run.dataset).digest
            # A run of all images leaves none for a proof, so none is read.
            took_all = config.request.limit is None and digest == config.dataset_digest
            table = context.ledger.datasets.table(run.dataset, most=0 if took_all else None)
    unknown = Counter[str]()
    summary = summarize_operations(run, _operations(items, unknown), config, table, after)
    return summary.model_copy(update={"unknown_kinds": dict(sorted(unknown.items()))})


def _operations(items: Iterable[Item], unknown: Counter[str] | None = None) -> Iterator[Item]:
    # Nothing is read before it is asked for: a run of edits alone may have its items in columns.
    for item in items:
        if item.kind == OPERATIONS:
            yield item
        elif unknown is not None and item.kind not in get_args(ItemKind):
            unknown[item.kind] += 1


def _report(summary: StressTestSummary, run: Run, items: Iterable[Item], read_image: ReadImage) -> str:
    """Write the report with the pairs that show each insight best, or of what operations cost."""
    operations = _operations(items)
    if not StressTestConfig.model_validate(summary.config).edits_captions:
        return render_operations(summary, run, operations, read_image)
    judging = judging_of(summary)
    if isinstance(items, ItemsOfRun) and run.request_counts.total > MOST_READ:
        return render(summary, run, shown_items(summary, run, items, judging), read_image, operations)
    judged = list(items if judging is None else judging.items(items))
    return render(summary, run, judged, read_image, operations)


def _headline(summary: StressTestSummary) -> Headline:
    sentence = summary.verdict.partition("\n")[0]
    if summary.verdicts:
        return Headline(sentence, summary.verdicts[0].state)
    return Headline(sentence if summary.failure is None else f"{sentence} {summary.failure}")


def _joined_state(run_id: str, context: RecordedRuns) -> Hashable:
    """Return the events of the runs that a child run joins, and the dataset, whose images may be left."""
    run = context.ledger.runs.get(run_id)
    try:
        digest = context.ledger.datasets.get(run.dataset).digest
    except UnknownDataset:
        digest = ""
    return digest, revision_of_proof(run, context.ledger)


def _has_operations_alone(suite: Suite) -> bool:
    return suite.transforms is not None and "captioner" not in suite.services


def _keep_columns(run: Run, context: RecordedRuns) -> int:
    if context.columns is None or run.resolved_config.get("preset") is None:
        return 0
    return keep_parts(run, context.ledger, context.columns)


def _thresholds(given: Mapping[str, Any]) -> Thresholds | None:
    return Thresholds(**given) if given else None


STRESS_TEST = Method(
    kind="stress-test",
    needs=("captioner", "perturber", "editor", "scorer", "classifiers"),
    can_do_without=_has_operations_alone,
    create=StressTestCreate,
    item=Item,
    summary=StressTestSummary,
    plan=plan,
    process=process,
    summarize=_summarize,
    report=_report,
    headline=_headline,
    choices=tuple(Thresholds.model_fields),
    view=_thresholds,
    problems=(PriceMissing, UnknownEditType),
    revision=_joined_state,
    next_stage=_next_stage,
    most_items=_most_items,
    rest_of_plan=rest_of_plan,
    look=look,
    keep_columns=_keep_columns,
    live=("confirmation", "edit", "intervention"),
    pairs=counterfactual_pairs,
    export=export,
)
