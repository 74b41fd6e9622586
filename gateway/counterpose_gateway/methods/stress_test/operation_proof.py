"""Proofs of operations: a child run carries one operation out on images that no run of it has used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from counterpose_core.commands import PROVE_IMAGES
from counterpose_core.contract.findings import Finding, FindingState, Screened
from counterpose_core.contract.proofs import FindingHistory, OperationProof, ProofCreate, ProofRun
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.contract.transforms import OperationFigure, TransformChoice
from counterpose_core.errors import (
    ClassMapMismatch,
    DatasetEmpty,
    InvalidRequest,
    NotFound,
    RunNotEnded,
    UnknownDataset,
)
from counterpose_core.stress_test.forecast import HORIZON, Forecast, Supply, forecast_proof, least_images
from counterpose_core.stress_test.proof import join
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.stress_test.method import STRESS_TEST
from counterpose_gateway.methods.stress_test.plan import plan_stress_test
from counterpose_gateway.methods.stress_test.transforms.plan import backgrounds_of
from counterpose_gateway.methods.stress_test.transforms.proof_summary import (
    JoinedOperation,
    joined_operation,
    operation_proof_of,
    operation_runs,
)
from counterpose_gateway.methods.stress_test.transforms.summary import headline_level
from counterpose_gateway.reports.numbers import percent
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.items import Plan
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.runs.source_table import SourceTable
from counterpose_gateway.runs.submission import named_dataset, require_quota
from counterpose_gateway.runs.summaries import summary_of
from counterpose_gateway.services.functions import with_functions
from counterpose_gateway.version import VERSIONS

_SEEDS = 2**63


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
        ClassMapMismatch: it has a class that the run has not.
        DatasetEmpty: it has no image that no run of the finding has used.
        InvalidRequest: the finding is decided, or the gateway serves another suite now.
    """
    parent, proof, figure = await asyncio.to_thread(_asked, run, number, create.images, context)
    runs = await asyncio.to_thread(operation_runs, proof, context.ledger)
    for each in runs:
        if each.state not in FINAL_RUN_STATES:
            raise RunNotEnded(f"run {each.id!r} is {each.state}; wait for its end, or cancel it")
    joined = await asyncio.to_thread(joined_operation, proof, context.ledger, runs)
    config = StressTestConfig.model_validate(parent.resolved_config)
    _require_open(config, figure, joined, context)
    name = create.dataset or parent.dataset
    dataset = await asyncio.to_thread(named_dataset, name, "/dataset", context.ledger)
    if strange := sorted(set(dataset.classes) - set(config.classes)):
        raise ClassMapMismatch(
            f"dataset {name!r} has the class {strange[0]!r}, among which run {parent.id!r} did not answer",
            pointer="/dataset",
        )
    table = await asyncio.to_thread(context.ledger.source_table, name)
    fresh = fresh_images(table, runs, context)
    if not len(fresh):
        raise DatasetEmpty(_NONE_LEFT.format(dataset=name))
    require_quota(min(len(fresh), create.images), context, "/images")
    seed = (config.request.seed + len(runs)) % _SEEDS if create.seed is None else create.seed
    request = config.request.model_copy(
        update={
            "dataset": name,
            "classifiers": [proof.classifier],
            "function_specs": {},
            "exclude": [],
            "limit": create.images,
            "seed": seed,
            "transforms": _choice(config, proof),
            "max_edits_per_image": 0,
            "lance_r_edits_per_image": 0,
            "interventions": [],
        }
    )
    served = functions or await asyncio.to_thread(context.ledger.functions, parent.id)
    child, items = await plan_stress_test(
        request,
        dataset=dataset.model_copy(update={"classes": config.classes}),
        sources=fresh,
        backgrounds=await asyncio.to_thread(backgrounds_of, request, context),
        suite=context.suite,
        services=with_functions(context.services, served),
    )
    kept = {fresh.id(at) for at in range(len(fresh))}
    used = [table.id(at) for at in range(len(table)) if table.id(at) not in kept]
    child = child.model_copy(
        update={"operation_proof": proof, "excluded": used, "baseline": [], "versions": dict(VERSIONS)}
    )
    return Plan(name, child, list(items), parent=parent.id)


_NONE_LEFT = (
    "no image is left in dataset {dataset!r} that no run of this finding has used, and an operation makes "
    "the same image again; upload more images, or name another dataset"
)


def _choice(config: StressTestConfig, proof: OperationProof) -> TransformChoice:
    chosen = config.request.transforms or TransformChoice()
    return chosen.model_copy(update={"operations": [proof.operation], "levels": [proof.level]})


def _require_open(
    config: StressTestConfig, figure: OperationFigure, joined: JoinedOperation, context: RunContext
) -> None:
    proof = joined.proof
    if config.suite != context.suite.name:
        raise InvalidRequest(
            f"run {proof.parent!r} was made with suite {config.suite!r}, and the gateway serves "
            f"{context.suite.name!r}; images of two suites cannot be joined"
        )
    if figure.state != "cannot-tell":
        raise InvalidRequest(
            f"finding {proof.number} of run {proof.parent!r} is decided: {figure.sentence} Prove one that "
            "cannot be decided"
        )


def _asked(
    run: Run, number: int, images: int, context: RunContext
) -> tuple[Run, OperationProof, OperationFigure]:
    """The run that has the finding, what of it is to be proven, and what that run says of it."""
    own = operation_proof_of(run)
    if own is not None and own.number != number:
        raise NotFound(f"run {run.id!r} proves finding {own.number} alone")
    parent = run if own is None else context.ledger.run(own.parent, STRESS_TEST.kind)
    told = summary_of(STRESS_TEST, parent.id, None, context).transforms
    figures = [] if told is None else told.figures
    figure = next((each for each in figures if each.number == number), None)
    if figure is None:
        most = figures[-1].number if figures else 0
        raise NotFound(f"run {parent.id!r} has no finding {number}: it has {most}")
    proof = own or OperationProof(
        parent=parent.id,
        number=number,
        classifier=figure.classifier,
        operation=figure.operation,
        level=headline_level(figure.levels).level,
        images=images,
        family=sum(len(each.levels) for each in figures),
    )
    return parent, proof.model_copy(update={"images": images}), figure


def fresh_images(table: SourceTable, runs: Sequence[Run], context: RunContext) -> SourceTable:
    """Return the images of a dataset that none of the runs has used, nor another of their groups."""
    used: set[str] = set()
    for run in runs:
        config = StressTestConfig.model_validate(run.resolved_config)
        groups = {} if config.grouping is None else config.grouping.groups
        for item in context.ledger.recorded_items(run.id):
            used |= {item.item_group, item.source_image, groups.get(item.item_group, item.item_group)}
        used.update(config.excluded if config.operation_proof is None else ())
    fresh = [
        at
        for at in range(len(table))
        if not used & {table.id(at), table.image(at), table.group(at) or table.id(at)}
    ]
    return table.take(np.array(fresh, dtype=np.intp))


def operation_history(run: Run, number: int, context: RunContext) -> FindingHistory:
    """Return an operation as its run tells it, and as that run and its proofs tell it together.

    Raises:
        NotFound: the run has no such finding.
    """
    parent, proof, figure = _asked(run, number, PROVE_IMAGES, context)
    runs = operation_runs(proof, context.ledger)
    joined = joined_operation(proof, context.ledger, runs)
    evidence = joined.evidence
    told = _finding(proof, figure, figure.state, figure.sentence)
    state = joined.state if len(runs) > 1 else figure.state
    decided = state != "cannot-tell"
    try:
        left = len(fresh_images(context.ledger.source_table(run.dataset), runs, context))
    except UnknownDataset:
        left = None
    forecast = Forecast(np.zeros(0), decided) if decided else _forecast(joined, figure, left or 0)
    finding = told if len(runs) == 1 else _finding(proof, figure, state, joined.sentence)
    least = 1 if decided else least_images(evidence)
    return FindingHistory(
        run_id=parent.id,
        told=told,
        finding=finding,
        runs=[
            ProofRun(
                run_id=each.run.id,
                state=each.run.state,
                dataset=each.run.dataset,
                planned=each.planned,
                pairs=len(each.images),
                e_value=join([each.losses], 1).e_value,
            )
            for each in joined.runs
        ],
        pairs=[],
        e_value=evidence.e_value,
        e_value_needed=evidence.needed,
        family=proof.family,
        images_needed=forecast.needed,
        images_left=left,
        least_images=least,
        chance=None if decided else forecast.chance(PROVE_IMAGES),
        outlook="" if decided else _outlook(forecast, left, least, run.dataset),
    )


def _finding(proof: OperationProof, figure: OperationFigure, state: FindingState, sentence: str) -> Finding:
    """An operation in the form of every finding: of all classes, and without pairs that a model drew."""
    level = next(each for each in figure.levels if each.level == proof.level)
    return Finding(
        number=proof.number,
        state=state,
        classifier=figure.classifier,
        object_class="",
        edit_type=figure.operation,
        backend=figure.backend,
        removed="",
        added=level.words,
        taken_for=None,
        flipped=level.lost,
        of=figure.images,
        screened=Screened(
            loss=level.loss.estimate or 0.0,
            n_sources=level.loss.n,
            n_images=figure.images,
            flipped=level.lost,
        ),
        confirmed=None,
        pairs=[],
        sentence=sentence,
    )


def _forecast(joined: JoinedOperation, figure: OperationFigure, left: int) -> Forecast:
    """What fresh images would do, as of other findings; without fresh images, what ones like these would."""
    proof = joined.proof
    key = f"{proof.classifier}/{proof.operation}/{proof.level}"
    generator = np.random.default_rng(derive_seed(0, "forecast", f"operation/{key}"))
    level = next(each for each in figure.levels if each.level == proof.level)
    planned = sum(each.planned for each in joined.runs)
    supply = Supply(left or HORIZON, planned, min(planned, joined.number), level.loss.estimate or 0.0)
    return forecast_proof(joined.evidence, supply, generator)


def _outlook(forecast: Forecast, left: int | None, least: int, dataset: str) -> str:
    needed = forecast.needed
    more = (
        f"About {needed} more images would decide it in half of the simulated futures."
        if needed
        else f"{min(left or HORIZON, HORIZON)} more images decide it in fewer than half of the futures."
    )
    if left is None:
        return f"{more} Whether images are left is not known: its dataset was deleted."
    if left < least:
        count = f"only {left} are left" if left else "none is left"
        return (
            f"{more} Of dataset {dataset!r} {count}, and it takes at least {least}: upload more images, or "
            "name another dataset (--dataset)."
        )
    chance = forecast.chance(PROVE_IMAGES)
    usual = (
        "" if chance is None else f" A proof on {min(PROVE_IMAGES, left)} decides it in {percent(chance)}."
    )
    return f"{more}{usual}"
