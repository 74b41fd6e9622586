"""Plan a gate: every pair of the regression set is one item.

Freeze the pairs of an ended run as a regression set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from counterpose_core.blobs import cache_key
from counterpose_core.contract.gates import (
    GateConfig,
    GateCreate,
    GateInstruction,
    RegressionSet,
    UntestedClasses,
)
from counterpose_core.contract.recipes import Recipe, is_recipe
from counterpose_core.contract.runs import Run
from counterpose_core.contract.tasks import AnyTask
from counterpose_core.errors import InvalidRequest, NotFound, RequestError, RunNotEnded
from counterpose_core.gate import LEAST_UNITS
from counterpose_core.gate.regression_set import (
    FrozenPair,
    digest_of,
    frozen,
    units_by_change,
    units_by_class,
)
from counterpose_core.tasks import recorded_task
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.records.items import Plan, PlannedItem, numbered
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import require_quota
from counterpose_gateway.steps.classifiers import check_classifiers
from counterpose_gateway.version import VERSIONS

_SOURCES_PER_CALL = 4
"""With about five counterfactuals each, a call has some 24 images."""

_SEARCHED = (
    "the counterfactuals were made while other classifiers were tested: a weakness that none of them shows "
    "is not searched for"
)
_FIXED = (
    "operations that the baseline does not have are not compared; all answer among the classes of the dataset"
)


async def plan(create: GateCreate, context: RunContext) -> Plan:
    """Resolve the request and plan every pair.

    Raises:
        NotFound, RunNotEnded, InvalidRequest: the baseline is no regression set, or another one than was
            frozen; or it has several classifiers and the request names no incumbent.
        QuotaExceeded: there are more pairs than a run may have items.
        UnknownModel, ClassMapMismatch: as of other runs.
    """
    found = await freeze(create.baseline, context)
    # The incumbent was asked by the baseline's, and the candidates are compared with it.
    create = create.model_copy(update={"label_map": create.label_map or dict(found.label_map)})
    _check_digest(create, found.told)
    incumbent = create.incumbent or _only_classifier(found.told)
    require_quota(len(found.pairs), context, "/baseline")
    await _check(create, incumbent, found, context)
    config = GateConfig(
        request=create,
        regression_set=found.told,
        incumbent=incumbent,
        suite=context.suite.name,
        versions=VERSIONS,
        classes=list(found.classes),
        task=found.task,
        notes=_notes(found.told, found.pairs),
    )
    return Plan("", config, list(numbered(_planned(found.pairs))), parent=None)


def _check_digest(create: GateCreate, told: RegressionSet) -> None:
    if create.digest not in (None, told.digest):
        raise InvalidRequest(
            f"the pairs of {create.baseline!r} have the digest {told.digest}, and the set was frozen with "
            f"{create.digest}: its thresholds or items have changed since; freeze it again",
            pointer="/digest",
        )


def _only_classifier(told: RegressionSet) -> str:
    if len(told.classifiers) == 1:
        return told.classifiers[0]
    raise InvalidRequest(
        f"the baseline has the classifiers {', '.join(told.classifiers)}; name one of them as the incumbent "
        "(--incumbent)",
        pointer="/incumbent",
    )


async def _check(create: GateCreate, incumbent: str, found: FrozenSet, context: RunContext) -> None:
    example, mapped = found.pairs[0].source, create.label_map
    await check_classifiers(create.classifiers, found.classes, example, context.services, label_map=mapped)
    try:
        await check_classifiers([incumbent], found.classes, example, context.services, label_map=mapped)
    except RequestError as error:
        error.pointer = "/incumbent"
        raise


def _notes(told: RegressionSet, pairs: Sequence[FrozenPair]) -> list[str]:
    few = [name for name, number in told.changes.items() if number < LEAST_UNITS]
    made = {is_recipe(pair.image) for pair in pairs}
    notes = [note for note, is_told in ((_FIXED, True in made), (_SEARCHED, made != {True})) if is_told]
    if few:
        notes.append(f"not tested, on fewer than {LEAST_UNITS} source images: {', '.join(few)}")
    return notes


def _planned(pairs: Sequence[FrozenPair]) -> Iterator[PlannedItem]:
    places = {source: place for place, source in enumerate(dict.fromkeys(pair.source for pair in pairs))}
    for slot, pair in enumerate(sorted(pairs, key=lambda pair: places[pair.source])):
        control = pair.source if is_recipe(pair.source) else None
        told = GateInstruction(image=pair.image, control=control, change=pair.change, unit=pair.unit)
        yield PlannedItem(
            item_key=cache_key(pair=[pair.change, pair.label, pair.unit, pair.source, pair.image]),
            ordinal=0,
            kind="image",
            item_group=cache_key(chunk=places[pair.source] // _SOURCES_PER_CALL),
            source_image=pair.source if control is None else Recipe.parsed(control).source,
            label=pair.label,
            labels=list(pair.labels) or None,
            slot=slot,
            instruction=told.model_dump(mode="json"),
        )


@dataclass(frozen=True)
class FrozenSet:
    """The pairs of a run, what is told of them, and the classes, label map and task of its classifiers."""

    told: RegressionSet
    pairs: Sequence[FrozenPair]
    classes: Sequence[str]
    label_map: Mapping[str, list[str]]
    task: AnyTask


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
    request = run.resolved_config["request"]
    task = recorded_task(run.resolved_config)
    return FrozenSet(told, pairs, _classes(run), request.get("label_map", {}), task)


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
