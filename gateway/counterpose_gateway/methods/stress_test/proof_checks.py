"""What every proof asks of its finding, its runs, its dataset and its request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from counterpose_core.contract.datasets import Dataset
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.proofs import AnyProof, ProofCreate
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.contract.transforms import OperationFinding
from counterpose_core.errors import ClassMapMismatch, InvalidRequest, NotFound, RunNotEnded
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import named_dataset

_SEEDS = 2**63

FindingT = TypeVar("FindingT", bound=Finding | OperationFinding)


def parent_of(run: Run, number: int, own: AnyProof | None, context: RunContext) -> Run:
    """Return the run that has a finding: that which ``own`` continues, or the run itself.

    Raises:
        NotFound: the run proves another finding, or the one that it continues was deleted.
    """
    if own is None:
        return run
    if own.number != number:
        raise NotFound(f"run {run.id!r} proves finding {own.number} alone")
    return context.ledger.runs.get(own.parent, "stress-test")


def numbered(findings: Sequence[FindingT], number: int, run: Run) -> FindingT:
    """Return the finding of a run with a number; raises NotFound."""
    for each in findings:
        if each.number == number:
            return each
    most = findings[-1].number if findings else 0
    raise NotFound(f"run {run.id!r} has no finding {number}: it has {most}")


def require_ended(runs: Sequence[Run]) -> None:
    """Raise RunNotEnded where one of the runs is still going on."""
    for run in runs:
        if run.state not in FINAL_RUN_STATES:
            raise RunNotEnded(f"run {run.id!r} is {run.state}; wait for its end, or cancel it")


def joinable(
    proof: AnyProof, parent: Run, runs: Sequence[Run], context: RunContext, functions: Mapping[str, str]
) -> StressTestConfig:
    """Return what the finding's run depends on, if one more run can be joined to it and its proofs.

    Raises:
        RunNotEnded: one of the runs is still going on.
        InvalidRequest: the gateway serves another suite now, or a function is not the finding's classifier.
    """
    require_ended(runs)
    config = StressTestConfig.model_validate(parent.resolved_config)
    if config.suite != context.suite.name:
        raise InvalidRequest(
            f"run {parent.id!r} was made with suite {config.suite!r}, and the gateway serves "
            f"{context.suite.name!r}; pairs of two suites cannot be joined"
        )
    if others := sorted(functions.keys() - {proof.classifier}):
        raise InvalidRequest(
            f"the finding is about {proof.classifier!r}, and the function is named {others[0]!r}; "
            f"name it {proof.classifier!r}",
            pointer="/functions",
        )
    return config


def dataset_of(create: ProofCreate, parent: Run, proof: AnyProof, context: RunContext) -> Dataset:
    """Return the dataset to take images from.

    Raises:
        UnknownDataset, DatasetNotReady: see `named_dataset`.
        ClassMapMismatch: it does not have the finding's class.
    """
    dataset = named_dataset(create.dataset or parent.dataset, "/dataset", context.ledger)
    label = proof.object_class
    if label and label not in dataset.classes:
        raise ClassMapMismatch(
            f"dataset {dataset.name!r} has no class {label!r}, which finding {proof.number} is about",
            pointer="/dataset",
        )
    return dataset


def seed_of(create: ProofCreate, config: StressTestConfig, runs: Sequence[Run]) -> int:
    """Return the seed of the next run: the one asked for, or one that follows from the finding's run."""
    return (config.request.seed + len(runs)) % _SEEDS if create.seed is None else create.seed
