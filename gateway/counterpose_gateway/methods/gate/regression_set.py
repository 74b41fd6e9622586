"""Freeze the pairs of an ended run as a regression set."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from counterpose_core.contract.gates import RegressionSet, UntestedClasses
from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest, NotFound, RunNotEnded
from counterpose_core.gate import LEAST_UNITS
from counterpose_core.gate.regression_set import (
    FrozenPair,
    digest_of,
    frozen,
    units_by_change,
    units_by_class,
)
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.runs.context import RunContext


@dataclass(frozen=True)
class FrozenSet:
    """The pairs of a run, what is told of them, and the classes and label map of its classifiers."""

    told: RegressionSet
    pairs: Sequence[FrozenPair]
    classes: Sequence[str]
    label_map: Mapping[str, list[str]]


async def freeze(baseline: str, context: RunContext) -> FrozenSet:
    """Read the pairs of an ended run.

    Raises:
        NotFound: there is no such run.
        RunNotEnded: it has not ended.
        InvalidRequest: it makes no counterfactuals, is of another suite, or no change has enough images.
    """
    return await asyncio.to_thread(_freeze, baseline, context)


def _freeze(baseline: str, context: RunContext) -> FrozenSet:
    run = _ended(baseline, context)
    suite = run.resolved_config.get("suite")
    if suite != context.suite.name:
        raise InvalidRequest(
            f"the baseline {baseline!r} was made with the suite {suite!r}, and this gateway runs "
            f"{context.suite.name!r}; name a run of this suite",
            pointer="/baseline",
        )
    pairs = frozen(context.pairs[run.kind](run, context))
    changes = units_by_change(pairs)
    if max(changes.values(), default=0) < LEAST_UNITS:
        raise InvalidRequest(
            f"the baseline {baseline!r} is too small for a regression set: no change was kept on "
            f"{LEAST_UNITS} source images ({_counts(changes)}); make it of more images",
            pointer="/baseline",
        )
    told = RegressionSet(
        baseline=run.id,
        kind=run.kind,
        suite=context.suite.name,
        digest=digest_of(pairs),
        pairs=len(pairs),
        sources=len({pair.unit for pair in pairs}),
        changes=changes,
        classifiers=list(run.resolved_config["request"]["classifiers"]),
        untested=untested_classes((pair.change, pair.label, pair.unit) for pair in pairs),
    )
    return FrozenSet(told, pairs, _classes(run), run.resolved_config["request"].get("label_map", {}))


def untested_classes(seen: Iterable[tuple[str, str, str]]) -> list[UntestedClasses]:
    """Return, by change, the classes on too few units for a test; ``seen`` as of `units_by_class`.

    Every change is told, also one under which each class is tested: so many classes of how many says both.
    """
    return [
        UntestedClasses(
            change=change,
            sources={label: number for label, number in of.items() if number < LEAST_UNITS},
            classes=len(of),
        )
        for change, of in units_by_class(seen).items()
    ]


def _ended(baseline: str, context: RunContext) -> Run:
    try:
        run = context.ledger.runs.get(baseline)
    except NotFound as error:
        error.pointer = "/baseline"
        raise
    if run.kind not in context.pairs:
        raise InvalidRequest(
            f"run {baseline!r} is a {run.kind}; name a stress test or a shift benchmark as the baseline",
            pointer="/baseline",
        )
    if run.state not in FINAL_RUN_STATES:
        raise RunNotEnded(f"run {baseline!r} has not ended yet; wait for it", pointer="/baseline")
    return run


def _classes(run: Run) -> list[str]:
    # A benchmark may show some of its dataset's classes only; classifiers choose among all of them.
    return list(run.resolved_config.get("labels") or run.resolved_config["classes"])


def _counts(changes: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in changes.items()) or "no pair was kept"
