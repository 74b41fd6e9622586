"""Proofs of operations: a child run carries one operation out on images that no run of it has used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np

from counterpose_core.commands import PROVE_IMAGES
from counterpose_core.contract.findings import Finding, Screened
from counterpose_core.contract.proofs import OperationProof, ProofCreate
from counterpose_core.contract.runs import Run
from counterpose_core.contract.severity import STATED_LOSS
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate
from counterpose_core.contract.transforms import ClassFinding, OperationFigure, TransformChoice
from counterpose_core.errors import (
    ClassMapMismatch,
    DatasetEmpty,
    InternalError,
    InvalidRequest,
    UnknownDataset,
)
from counterpose_core.stress_test.forecast import HORIZON, Supply, forecast_proof, least_images
from counterpose_core.transforms.table import operation
from counterpose_gateway.methods.stress_test import proof_checks
from counterpose_gateway.methods.stress_test.confirm.outlook import Outlook
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.plan import prepare_stress_test
from counterpose_gateway.methods.stress_test.prepared import first_items
from counterpose_gateway.methods.stress_test.summary.joined_runs import proving_runs
from counterpose_gateway.methods.stress_test.transforms.fresh_images import fresh_images
from counterpose_gateway.methods.stress_test.transforms.given import GivenChange
from counterpose_gateway.methods.stress_test.transforms.plan import second_of
from counterpose_gateway.methods.stress_test.transforms.proof_summary import JoinedOperation, joined_operation
from counterpose_gateway.records.items import Plan
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.runs.submission import require_quota
from counterpose_gateway.services.functions import with_functions
from counterpose_gateway.summaries.summaries import summary_of
from counterpose_gateway.version import VERSIONS


def is_about_operation(run: Run, number: int, context: RunContext) -> bool:
    """Whether a finding of a stress test is about an operation; those about edits have the lower numbers."""
    config = StressTestConfig.model_validate(run.resolved_config)
    if config.transforms is None or not config.edits_captions:
        return config.transforms is not None
    told = summary_of(STRESS_TEST, run.id, None, context).transforms
    return told is not None and bool(told.figures) and number >= told.figures[0].number


async def plan_operation_proof(
    run: Run, number: int, create: ProofCreate, context: RunContext, functions: Mapping[str, str]
) -> Plan:
    """Plan a child run: the operation at one level on fresh images, never the same images again.

    Raises:
        NotFound: the run has no such finding.
        RunNotEnded: an earlier proof of it is still going on.
        UnknownDataset: the dataset does not exist.
        ClassMapMismatch: it has a class that the run has not, or does not have the finding's class.
        DatasetEmpty: it has no image, of its class, that no run of the finding has used.
        InvalidRequest: the finding is of all classes and decided, or the gateway serves another suite now.
    """
    parent, proof, told = await asyncio.to_thread(_asked, run, number, create.images, context)
    runs = await asyncio.to_thread(proving_runs, proof, context.ledger)
    config = proof_checks.joinable(proof, parent, runs, context, functions)
    if _is_given(parent):
        raise InvalidRequest(
            f"finding {number} of run {parent.id!r} is of given pairs, and no others can be made here; add "
            "pairs to their table, and test them in a new run"
        )
    # What is shown of a class was chosen among many: it may be tried again on images that did not choose it.
    if not proof.object_class and told.state != "cannot-tell":
        raise InvalidRequest(
            f"finding {number} of run {parent.id!r} is decided: {told.sentence} Prove one that cannot be "
            "decided"
        )
    dataset = await asyncio.to_thread(proof_checks.dataset_of, create, parent, proof, context)
    if strange := sorted(set(dataset.classes) - set(config.classes)):
        raise ClassMapMismatch(
            f"dataset {dataset.name!r} has the class {strange[0]!r}, among which run {parent.id!r} did not "
            "answer",
            pointer="/dataset",
        )
    table = await asyncio.to_thread(context.ledger.datasets.table, dataset.name)
    fresh = await asyncio.to_thread(fresh_images, table, runs, context.ledger, proof.object_class)
    if not len(fresh):
        raise DatasetEmpty(_why_none(proof, dataset.name))
    require_quota(min(len(fresh), create.images), context, "/images")
    request = _request(config, proof, dataset.name, proof_checks.seed_of(create, config, runs))
    served = functions or await asyncio.to_thread(context.ledger.runs.functions, parent.id)
    prepared = await prepare_stress_test(
        request,
        dataset=dataset.model_copy(update={"classes": config.classes}),
        sources=fresh,
        second=await asyncio.to_thread(second_of, request, context),
        suite=context.suite,
        services=with_functions(context.services, served),
    )
    kept = {fresh.id(at) for at in range(len(fresh))}
    used = [table.id(at) for at in range(len(table)) if table.id(at) not in kept]
    child = prepared.config.model_copy(
        update={"operation_proof": proof, "excluded": used, "baseline": [], "versions": dict(VERSIONS)}
    )
    return Plan(dataset.name, child, list(first_items(prepared)), parent=parent.id)


def _is_given(run: Run) -> bool:
    plan = StressTestConfig.model_validate(run.resolved_config).transforms
    return plan is not None and plan.given is not None


def _why_none(proof: OperationProof, dataset: str) -> str:
    of = f" of {proof.object_class!r}" if proof.object_class else ""
    return (
        f"no image{of} is left in dataset {dataset!r} that no run of this finding has used, and an operation "
        "makes the same image again; upload more images, or name another dataset"
    )


def _request(config: StressTestConfig, proof: OperationProof, dataset: str, seed: int) -> StressTestCreate:
    chosen = config.request.transforms or TransformChoice()
    return config.request.model_copy(
        update={
            "dataset": dataset,
            "classifiers": [proof.classifier],
            "function_specs": {},
            "exclude": [],
            "limit": proof.images,
            "seed": seed,
            "transforms": chosen.model_copy(
                update={
                    "operations": [proof.operation],
                    "levels": [proof.level],
                    "severity": None,
                    "severity_loss": STATED_LOSS,
                    "least_loss": proof.least_loss,
                }
            ),
            "max_edits_per_image": 0,
            "lance_r_edits_per_image": 0,
            "interventions": [],
        }
    )


def _asked(run: Run, number: int, images: int, context: RunContext) -> tuple[Run, OperationProof, Finding]:
    """The run that has the finding, what of it is to be proven, and what that run says of it."""
    own = StressTestConfig.model_validate(run.resolved_config).operation_proof
    parent = proof_checks.parent_of(run, number, own, context)
    told = summary_of(STRESS_TEST, parent.id, None, context).transforms
    if told is None:
        raise InternalError(f"run {parent.id!r} has no operations")
    found = proof_checks.numbered(told.findings, number, parent)
    if own is None:
        # A family of their own, as in the run: every class with tests under all operations and levels.
        classes = told.classes.classes if found.object_class and told.classes is not None else 1
        own = OperationProof(
            parent=parent.id,
            number=number,
            classifier=found.classifier,
            operation=found.operation,
            level=found.headline.level,
            object_class=found.object_class,
            images=images,
            family=classes * sum(len(each.levels) for each in told.figures),
            least_loss=told.least_loss,
        )
    proof = own.model_copy(update={"images": images})
    planned = max(each.level for each in found.levels) if isinstance(found, OperationFigure) else found.level
    row = operation(proof.operation) if told.given is None else GivenChange(proof.operation, planned)
    return parent, proof, _finding(proof, found, row.in_words(proof.level))


def operation_history(
    run: Run, number: int, context: RunContext
) -> tuple[Finding, Finding, JoinedOperation, Outlook]:
    """Return an operation as its run tells it, as it stands with its proofs, these, and what more could do.

    Raises:
        NotFound: the run has no such finding.
    """
    _, proof, told = _asked(run, number, PROVE_IMAGES, context)
    joined = joined_operation(proof, context.ledger, proving_runs(proof, context.ledger))
    finding = told
    if len(joined.runs) > 1:
        finding = told.model_copy(update={"state": joined.state, "sentence": joined.sentence})
    if _is_given(run):
        return told, finding, joined, Outlook(proof.object_class, run.dataset, 0, 0, 0)
    return told, finding, joined, _outlook(joined, finding, run.dataset, context)


def _finding(proof: OperationProof, found: OperationFigure | ClassFinding, words: str) -> Finding:
    """An operation in the form of every finding, without pairs that a model drew."""
    level = found.headline
    return Finding(
        number=proof.number,
        state=found.state,
        classifier=found.classifier,
        object_class=proof.object_class,
        edit_type=found.operation,
        level=proof.level,
        backend=found.backend,
        removed="",
        added=words,
        taken_for=None,
        flipped=level.lost,
        of=found.images,
        screened=Screened(
            loss=level.loss.estimate or 0.0, n_sources=level.loss.n, n_images=found.images, flipped=level.lost
        ),
        confirmed=None,
        pairs=[],
        sentence=found.sentence,
    )


def _outlook(joined: JoinedOperation, finding: Finding, dataset: str, context: RunContext) -> Outlook:
    """What fresh images would do, as of other findings; without fresh images, what ones like these would."""
    proof, ledger = joined.proof, context.ledger
    label, runs = proof.object_class, [each.run for each in joined.runs]
    try:
        left = len(fresh_images(ledger.datasets.table(dataset), runs, ledger, label))
    except UnknownDataset:
        left = None
    if finding.state != "cannot-tell":
        return Outlook(label, dataset, left, 0, 0)
    key = f"{proof.classifier}/{proof.operation}/{proof.level}" + (f"/class/{label}" if label else "")
    generator = np.random.default_rng(derive_seed(0, "forecast", f"operation/{key}"))
    planned = sum(each.planned for each in joined.runs)
    supply = Supply(left or HORIZON, planned, min(planned, joined.number), finding.screened.loss)
    forecast = forecast_proof(joined.evidence, supply, generator)
    # By its own test the run may not have told what the evidence of its images would.
    needed = 1 if forecast.decided else forecast.needed
    least, chance = least_images(joined.evidence), forecast.chance(PROVE_IMAGES)
    return Outlook(label, dataset, left, 0, needed, least, chance)
