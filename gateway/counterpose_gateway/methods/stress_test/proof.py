"""Proofs: start a child run for one finding (`start_proof`), and tell what all its runs show.

`plan_proof` plans such a run, `finding_history` joins the finding's own run and its children. The routes and
the pages call these functions alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np
from pydantic import BaseModel

from counterpose_core.contract.confirmation import SuspectedChange, Wording
from counterpose_core.contract.datasets import Dataset
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.proofs import FindingHistory, Proof, ProofCreate
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.stress_test.screening import Change, wording_key
from counterpose_gateway.methods.stress_test import proof_checks
from counterpose_gateway.methods.stress_test.columns import ItemColumns, read_columns
from counterpose_gateway.methods.stress_test.confirm.images_left import left_of, sources_of
from counterpose_gateway.methods.stress_test.confirm.outlook import outlook_of
from counterpose_gateway.methods.stress_test.confirm.proof_stages import (
    LeftImages,
    config_of_child,
    first_stage,
    must_draw,
)
from counterpose_gateway.methods.stress_test.confirm.stages import wordings_of
from counterpose_gateway.methods.stress_test.groups import group_sources, in_group
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import (
    Suspicion,
    chosen_changes,
    suspicions,
)
from counterpose_gateway.methods.stress_test.observations.observed_items import ObservedItems
from counterpose_gateway.methods.stress_test.operation_proof import (
    is_about_operation,
    operation_history,
    plan_operation_proof,
)
from counterpose_gateway.methods.stress_test.regions import with_segmenter
from counterpose_gateway.methods.stress_test.report.findings import findings_of
from counterpose_gateway.methods.stress_test.summary.joined_runs import (
    JoinedFinding,
    joined_finding,
    proving_runs,
)
from counterpose_gateway.methods.stress_test.summary.screen import screened_groups
from counterpose_gateway.methods.stress_test.transforms.proof_summary import JoinedOperation
from counterpose_gateway.records.items import Plan
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import require_quota, submit_planned, without_functions
from counterpose_gateway.services.functions import with_functions
from counterpose_gateway.steps.classifiers import check_classifiers
from counterpose_gateway.summaries.summaries import summary_of
from counterpose_gateway.version import VERSIONS


class _Asked(BaseModel):
    """All that tells one request for a proof from another."""

    run_id: str
    number: int
    create: ProofCreate


async def start_proof(
    run_id: str, number: int, create: ProofCreate, context: RunContext, key: str | None = None
) -> Run:
    """Start a child run that makes more pairs for one finding; its run is never reopened.

    Args:
        run_id: the run that has the finding, or one of its children.
        number: the finding's number in that run.
        create: how many images, from where.
        context: the context for planning.
        key: the idempotency key; one that made a run before returns that run.

    Raises:
        IdempotencyConflict: the key was used for something else.
        NotFound, RunNotEnded, DatasetEmpty, ClassMapMismatch, InvalidRequest, ...: see `plan_proof`.
    """
    bare, functions = without_functions(create, context)
    asked = _Asked(run_id=run_id, number=number, create=bare)
    return await submit_planned(
        STRESS_TEST,
        asked,
        lambda: plan_proof(run_id, number, bare, context, functions),
        context,
        key,
        functions=functions,
    )


async def plan_proof(
    run_id: str,
    number: int,
    create: ProofCreate,
    context: RunContext,
    functions: Mapping[str, str] | None = None,
) -> Plan:
    """Plan a child run: captions of images that the finding has not seen; their pairs are its second stage.

    ``functions`` are addresses of classifiers that the caller's program serves; default: those of the run.

    Raises:
        NotFound: there is no such run, or it has no such finding.
        RunNotEnded: the run, or an earlier proof of this finding, is still going on.
        UnknownDataset: the dataset does not exist.
        ClassMapMismatch: it does not have the finding's class.
        DatasetEmpty: it has no image of the class that is left to make a pair of.
        InvalidRequest: the finding names no words, the gateway serves another suite now, a function is not
            the finding's classifier, or images have no mask for the run's region, and there is no segmenter.
        UnknownModel: the classifier does not exist any more.
        QuotaExceeded: the run would have more items than a run may.
        BackendError: the run looked for near-duplicates, and the scorer is down.
    """
    run = await asyncio.to_thread(context.ledger.runs.get, run_id, STRESS_TEST.kind)
    proof_checks.require_ended([run])
    is_operation = await asyncio.to_thread(is_about_operation, run, number, context)
    plan = plan_operation_proof if is_operation else _plan
    return await plan(run, number, create, context, functions or {})


async def _plan(
    run: Run, number: int, create: ProofCreate, context: RunContext, functions: Mapping[str, str]
) -> Plan:
    parent, proof, runs = await asyncio.to_thread(_known, run, number, context)
    config = proof_checks.joinable(proof, parent, runs, context, functions)
    dataset = await asyncio.to_thread(proof_checks.dataset_of, create, parent, proof, context)
    seed = proof_checks.seed_of(create, config, runs)
    sources = await asyncio.to_thread(sources_of, proof, dataset.name, config, context.ledger)
    table, grouping = await group_sources(
        config.request, SourceTable.of(sources), context.services, known=config.groups
    )
    grouped = [in_group(source, table.group(number)) for number, source in enumerate(sources)]
    left = await asyncio.to_thread(left_of, proof, grouped, seed=seed, runs=runs, ledger=context.ledger)
    without_pairs = proof.finding.model_copy(update={"pairs": []})
    drawn = must_draw(left, config)
    asked = {"finding": without_pairs, "images": create.images, "drawn": drawn}
    child = config_of_child(
        config,
        proof.model_copy(update=asked),
        dataset=dataset.name,
        dataset_digest=dataset.digest,
        seed=seed,
        versions=VERSIONS,
        grouping=grouping,
    )
    read = SourceTable.of(left.spent if drawn else left.to_read(create.images))
    child = with_segmenter(child, read, context.suite.segmenter)
    items = first_stage(child, left, create.images)
    if not items:
        raise DatasetEmpty(_why_none(proof, dataset, left))
    require_quota(len(items) + 2 * create.images, context, "/images")
    served = functions or await asyncio.to_thread(context.ledger.runs.functions, parent.id)
    services, request = with_functions(context.services, served), child.request
    await check_classifiers(
        request.classifiers, child.classes, items[0].source_image, services, label_map=request.label_map
    )
    return Plan(dataset.name, child, items, parent=parent.id)


def finding_history(run_id: str, number: int, context: RunContext) -> FindingHistory:
    """Return a finding as its run tells it, and as that run and all its child runs tell it together.

    Args:
        run_id: the run that has the finding, or one of its children.
        number: the finding's number in that run.
        context: the stores of the runs.

    Raises:
        NotFound: there is no such run, or it has no such finding.
    """
    run = context.ledger.runs.get(run_id, STRESS_TEST.kind)
    joined: JoinedFinding | JoinedOperation
    if is_about_operation(run, number, context):
        told, finding, joined, outlook = operation_history(run, number, context)
        pairs = []
    else:
        parent, proof, runs = _known(run, number, context)
        joined = joined_finding(proof, context.ledger, runs)
        told, finding, pairs = proof.finding, joined.finding, joined.listed_pairs
        config = StressTestConfig.model_validate(parent.resolved_config)
        outlook = outlook_of(joined, parent.dataset, config, context.ledger)
    return FindingHistory(
        run_id=joined.proof.parent,
        told=told,
        finding=finding,
        runs=joined.listed_runs,
        pairs=pairs,
        e_value=joined.evidence.e_value,
        e_value_needed=joined.evidence.needed,
        family=joined.proof.family,
        images_needed=outlook.needed,
        images_left=outlook.left,
        redraws_left=outlook.draws,
        least_images=outlook.least,
        chance=outlook.chance,
        outlook=outlook.sentence,
    )


def _known(run: Run, number: int, context: RunContext) -> tuple[Run, Proof, list[Run]]:
    """The run that has the finding, the finding itself, and all runs with pairs of it."""
    own = StressTestConfig.model_validate(run.resolved_config).proof
    parent = proof_checks.parent_of(run, number, own, context)
    if own is not None:
        # With its pairs, unless items that were tried again since have changed the run's findings.
        found = (each for each in _listed(parent.id, context) if _words(each) == _words(own.finding))
        own = own.model_copy(update={"finding": next(found, own.finding)})
        return parent, own, proving_runs(own, context.ledger)
    findings = _listed(run.id, context)
    told = proof_checks.numbered(findings, number, run)
    change, wordings = _change(told, run, read_columns(run, context.ledger))
    proof = Proof(
        parent=run.id,
        finding=told,
        change=SuspectedChange(edit_type=change.edit_type, removed=change.removed, added=change.added),
        wordings=wordings,
        images=1,
        family=len(findings),
    )
    return run, proof, proving_runs(proof, context.ledger)


def _words(finding: Finding) -> tuple[str, ...]:
    return finding.classifier, finding.object_class, finding.edit_type, finding.removed, finding.added


def _is_named(told: Finding, wording: Wording) -> bool:
    """Whether a finding whose wordings part speaks of this one; one of all speaks of any."""
    if told.tested is None:
        return True
    named = {wording_key(each.removed, each.added) for each in told.wordings if each.named}
    return wording_key(wording.removed, wording.added) in named


def _listed(run_id: str, context: RunContext) -> list[Finding]:
    """The findings that a run lists, by number."""
    summary = summary_of(STRESS_TEST, run_id, None, context)
    return summary.findings or findings_of(
        summary, read_columns(context.ledger.runs.get(run_id), context.ledger)
    )


def _change(told: Finding, run: Run, columns: ItemColumns) -> tuple[Change, list[Wording]]:
    """The change behind a finding and the words that show it.

    Raises:
        InvalidRequest: the finding is about various words, or about two conditions.
    """
    if told.conjunction:
        named = " and ".join(repr(each.words) for each in told.conjunction)
        raise InvalidRequest(
            f"finding {told.number} of run {run.id!r} is about {named} together, and only a single change "
            "can be tested further; a new run with more images of the class tests both again"
        )
    groups = screened_groups(columns, [told.classifier])
    tested = _words(told)
    if told.tested is not None:
        tested = (*tested[:3], told.tested.removed, told.tested.added)
    later = ObservedItems(columns, np.flatnonzero(columns.stage > 1))
    chosen: dict[Suspicion, list[Wording]] = {
        suspicion: wordings_of(each, groups) for suspicion, each in suspicions(chosen_changes(later))
    }
    screened = {suspicion: group.wordings for suspicion, group in groups.items()}
    for (classifier, change), wordings in {**screened, **chosen}.items():
        group = groups.get((classifier, change))
        words = (change.removed, change.added) if group is None else (group.removed, group.added)
        said = (classifier, change.object_class, change.edit_type, *words)
        if said == tested and wordings:
            return change, [each for each in wordings if _is_named(told, each)]
    raise InvalidRequest(
        f"finding {told.number} of run {run.id!r} is about various words, not about one change; a new run "
        "with more images of the class may tell which of them hurts"
    )


def _why_none(proof: Proof, dataset: Dataset, left: LeftImages) -> str:
    label = proof.finding.object_class
    if left.others:
        return (
            f"the change applies to none of the {left.others} images of {label!r} that are left in dataset "
            f"{dataset.name!r}; upload more images of that class, or name another dataset"
        )
    return (
        f"no image of {label!r} is left in dataset {dataset.name!r}: the run and its proofs have used all; "
        "upload more images of that class, or name another dataset"
    )
