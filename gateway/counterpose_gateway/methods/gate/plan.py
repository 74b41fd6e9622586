"""Plan a gate: every pair of the regression set is one item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpose_core.blobs import cache_key
from counterpose_core.contract.gates import GateConfig, GateCreate, GateInstruction, RegressionSet
from counterpose_core.contract.recipes import Recipe, is_recipe
from counterpose_core.errors import InvalidRequest, RequestError
from counterpose_core.gate import LEAST_UNITS
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_gateway.methods.gate.regression_set import FrozenSet, freeze
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
        f"the baseline has the classifiers {', '.join(told.classifiers)}; name one of them as the incumbent",
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
            slot=slot,
            instruction=told.model_dump(mode="json"),
        )
