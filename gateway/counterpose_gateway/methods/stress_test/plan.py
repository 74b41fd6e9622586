"""Plan a stress test: resolve the request, choose its sources, check its words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from counterpose_core.contract.datasets import Dataset
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.interventions import Intervention
from counterpose_core.contract.preservation import OF_REGIONS
from counterpose_core.contract.regions import OF_MASKS
from counterpose_core.contract.runs import Run
from counterpose_core.contract.stress_tests import (
    GateThresholds,
    StressTestConfig,
    StressTestCreate,
    TextThresholds,
)
from counterpose_core.errors import ClassMapMismatch, DatasetEmpty, InternalError, InvalidRequest
from counterpose_core.stress_test.item_counts import items_per_source
from counterpose_core.suite import Suite
from counterpose_core.tasks import task_of
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.text.plain_text import check_words
from counterpose_gateway.methods.stress_test.baseline import measure_baseline
from counterpose_gateway.methods.stress_test.groups import group_sources
from counterpose_gateway.methods.stress_test.notes import (
    planning_notes,
    require_classes,
    require_several_classes,
    severity_notes,
)
from counterpose_gateway.methods.stress_test.prepared import Prepared, divided, first_items
from counterpose_gateway.methods.stress_test.regions import confined_preset, with_segmenter
from counterpose_gateway.methods.stress_test.screen.judges import (
    calibrations_of,
    references_of,
    require_judges,
    try_judges,
)
from counterpose_gateway.methods.stress_test.transforms.plan import (
    completed,
    joined,
    resolved,
    second_dataset,
    second_of,
    with_operations,
)
from counterpose_gateway.records.items import Plan, PlannedItem
from counterpose_gateway.records.source_table import SourceTable, places_within
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.large_plans import PlanInputs
from counterpose_gateway.runs.submission import named_dataset, require_quota, require_told_apart
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.classifiers import check_classifiers
from counterpose_gateway.steps.off_loop import off_loop
from counterpose_gateway.version import VERSIONS


async def plan(create: StressTestCreate, context: RunContext) -> Plan:
    """Plan a stress test on the dataset that the request names.

    Raises:
        QuotaExceeded: it would have more items than a run may.
        UnknownDataset: the dataset does not exist.
        NotFound: the run that it applies a change of does not exist.
        DatasetEmpty, UnknownModel, ClassMapMismatch, InvalidRequest: see `prepare_stress_test`.
    """
    # One thread for all that is read: callers that wait at once would wait for a second one too.
    create, dataset, sources, second = await asyncio.to_thread(_read, create, context)
    prepared = await _prepared(create, dataset, sources, second, context)
    config, items = prepared.config, first_items(prepared)
    confirms = config.confirmation is not None and config.confirmation.reason is None
    read = {dataset.name: len(sources)} | (
        {} if second is None else {second_dataset(create) or "": len(second)}
    )
    later = confirms or (config.transforms is not None and config.transforms.is_adaptive)
    return Plan(dataset.name, config, items, staged=later, sources=read, parent=create.applied_from)


async def prepare(create: StressTestCreate, context: RunContext) -> Prepared:
    """Refuse what `plan` refuses, and return what it would plan from.

    Raises:
        QuotaExceeded, UnknownDataset, DatasetEmpty, UnknownModel, ...: see `plan`.
    """
    return await _prepared(*await asyncio.to_thread(_read, create, context), context)


async def _prepared(
    create: StressTestCreate,
    dataset: Dataset,
    sources: SourceTable,
    second: SourceTable | None,
    context: RunContext,
) -> Prepared:
    return await prepare_stress_test(
        create,
        dataset=dataset,
        sources=sources,
        second=second,
        suite=context.suite,
        services=context.services,
        policy_words=context.policy.phrases,
    )


def _read(
    create: StressTestCreate, context: RunContext
) -> tuple[StressTestCreate, Dataset, SourceTable, SourceTable | None]:
    dataset = named_dataset(create.dataset, "/dataset", context.ledger)
    if create.applied_from is not None:
        context.ledger.runs.get(create.applied_from, "stress-test")
    # Multiplied out before the sources are read: too large a plan would not fit into memory.
    create = with_operations(create, context.suite)
    n_sources = min(dataset.n_sources, create.limit or dataset.n_sources)
    require_quota(n_sources * items_per_source(create), context, "/limit")
    require_told_apart(dataset.classes, dataset.name)
    table = context.ledger.datasets.table
    return create, dataset, table(create.dataset), second_of(create, context)


def rest_of_plan(run: Run, inputs: PlanInputs, first: int) -> Iterator[PlannedItem]:
    """Plan the items of a run's first stage again, from the ordinal ``first`` on.

    Raises:
        InternalError: the recorded configuration and sources give another plan, or no longer exist.
    """
    config = StressTestConfig.model_validate(run.resolved_config)
    left = inputs.table(run.dataset).without_id(config.excluded)
    named = second_dataset(config.request)
    second = None if named is None else inputs.table(named)
    left, given = joined(config.request, left, second)
    chosen = choose_sources(left, config.classes, config.request.limit)
    # Those that a dataset names may have changed since, and others were found by a service.
    grouped = chosen.in_groups(config.groups)
    division = divided(config, grouped)
    if division.plan != config.confirmation:
        raise InternalError(f"the sources of run {run.id!r} are divided in another way than at its creation")
    return first_items(Prepared(config, grouped, division, given), first)


async def prepare_stress_test(
    create: StressTestCreate,
    *,
    dataset: Dataset,
    sources: SourceTable,
    suite: Suite,
    services: Services,
    policy_words: Sequence[str] = (),
    second: SourceTable | None = None,
) -> Prepared:
    """Resolve and check the request, and divide its sources; `first_items` plans from that.

    Where the run confirms, the items are its first stage, and of the sources kept for the others the captions
    are planned.

    Raises:
        DatasetEmpty: no source is left to test on.
        ClassMapMismatch: a label lies outside the dataset's classes or a classifier's class map, or the
            dataset has one class only.
        UnknownModel: a classifier or the suite's perturber does not exist.
        InvalidRequest: the suite's editor has no such preset, a name to exclude matches no source, an
            intervention is not plain text, or there are too many images to find near-duplicates among.
        BackendError: near-duplicates are asked for, and the scorer is down.
    """
    check_interventions(create.interventions)
    require_several_classes(dataset)
    # Of 100,000 sources each step takes a second, and nobody else would be answered meanwhile.
    left, excluded = await off_loop(sources, leave_out, sources, create.exclude)
    left, given = await off_loop(left, joined, create, left, second)
    chosen = await off_loop(left, choose_sources, left, dataset.classes, create.limit)
    if not len(chosen):
        but = f" except the {len(excluded)} excluded" if excluded else ""
        raise DatasetEmpty(f"dataset {dataset.name!r} holds no image{but}")
    grouped, grouping = await group_sources(create, chosen, services)
    config = resolve(create, dataset=dataset, suite=suite, policy_words=policy_words)
    config = with_segmenter(config, grouped, suite.segmenter)
    division = await off_loop(grouped, divided, config, grouped)
    require_classes(grouped, dataset.classes)
    known = {
        "labelled": grouped.number_labelled(),
        "references": await off_loop(grouped, references_of, create.rule, grouped),
        "excluded": excluded,
        "confirmation": division.plan,
        "grouping": grouping,
        "notes": planning_notes(create, grouped, division.plan) if config.edits_captions else [],
    }
    config = config.model_copy(update=known)
    task_of(create.task, dataset.classes)
    await check_classifiers(
        create.classifiers, dataset.classes, chosen.image(0), services, label_map=create.label_map
    )
    await try_judges(config, chosen.image(0), chosen.label(0), services)
    if config.transforms is not None:
        plan = await completed(config.transforms, create, dataset.classes, grouped, given, services)
        notes = [*config.notes, *severity_notes(plan, grouped.number_of_units())]
        config = config.model_copy(update={"transforms": plan, "notes": notes})
    # Edits are answered among the dataset's classes alone, and are held against these answers.
    further = {} if config.edits_captions or config.transforms is None else config.transforms.others
    baseline = await measure_baseline(create, chosen, dataset.classes, services, further)
    return Prepared(config.model_copy(update={"baseline": baseline}), grouped, division, given)


def choose_sources(sources: SourceTable, classes: Sequence[str], limit: int | None) -> SourceTable:
    """Take ``limit`` sources evenly over the classes, independently of their order.

    Raises:
        ClassMapMismatch: a source's label is not in ``classes``.
    """
    number_of = {name: number for number, name in enumerate(classes)}
    numbers = np.array([number_of.get(name, -1) for name in sources.label_names], dtype=np.int32)
    # Sorted by id: the same images make the same plan in whatever order they were uploaded.
    order, repeats = sources.in_order_of_ids()
    # An image that is listed twice is one source.
    order = order[~repeats]
    of_class = numbers[sources.own_labels()[order]] if len(order) else np.array([], dtype=np.int32)
    if (strange := np.flatnonzero(of_class < 0)).size:
        raise _no_class(sources, int(order[strange[0]]))
    # One of each class in turn.
    in_turn = order[np.lexsort((of_class, places_within(of_class)))]
    return sources.take(in_turn[:limit])


def _no_class(sources: SourceTable, number: int) -> ClassMapMismatch:
    filename = next(islice(sources.details.filenames(), int(sources.places[number]), None))
    return ClassMapMismatch(f"{filename!r} has the label {sources.label(number)!r}, which is not a class")


def resolve(
    create: StressTestCreate, *, dataset: Dataset, suite: Suite, policy_words: Sequence[str] = ()
) -> StressTestConfig:
    """Record everything that the run depends on.

    Raises:
        InvalidRequest: the suite does not have the preset, or its backend cannot do what is asked for.
        UnknownModel: the suite has no captioner, perturber, editor or scorer.
    """
    asked, own = create.transforms, suite.transforms
    operations = None if asked is None else resolved(asked, own, suite.segmenter)
    require_judges(create, suite)
    if operations is not None and not create.edits_captions:
        _require_measurable(create)
        return StressTestConfig(
            request=create,
            suite=suite.name,
            preset=None,
            transforms=operations,
            gate=GateThresholds(),
            text=TextThresholds(),
            models={},
            versions=VERSIONS,
            dataset_digest=dataset.digest,
            classes=list(dataset.classes),
        )
    preset = suite.editor.default_preset if create.preset is None else create.preset
    if preset not in suite.editor.presets:
        offered = ", ".join(sorted(suite.editor.presets))
        raise InvalidRequest(
            f"suite {suite.name!r} has no preset {preset!r}{did_you_mean(preset, suite.editor.presets)}; it "
            f"offers {offered}",
            pointer="/preset",
        )
    own_region = suite.editor.presets[preset].region
    # Recorded, so that a follow-up of this run takes the same preset, and its region, under any suite.
    create = create.model_copy(update={"preset": preset, "region": create.region or own_region})
    _require_measurable(create)
    _require_edits(preset, suite.editor.presets[preset], create)
    redraw = suite.editor.redraw_preset
    return StressTestConfig(
        request=create,
        suite=suite.name,
        preset=confined_preset(preset, _swept(suite.editor.presets[preset], create), create),
        transforms=operations,
        redraw=None if redraw is None else confined_preset("redraw", _swept(redraw, create), create),
        gate=create.thresholds.of_gate(suite.scorer.gate),
        text=create.thresholds.of_text(suite.scorer.text),
        models=_model_names(suite, suite.perturber.model),
        versions=VERSIONS,
        dataset_digest=dataset.digest,
        classes=list(dataset.classes),
        objectionable=suite.scorer.objectionable,
        known_images=suite.known_images,
        policy_words=list(policy_words),
        calibrations=calibrations_of(create.rule, suite),
        judged_by={name: getattr(suite, name).identity for name in create.rule.asked},
    )


def _require_measurable(create: StressTestCreate) -> None:
    """Refuse a region, or wishes about preservation, that contradict each other or the request."""
    if create.region is not None and not create.edits_captions:
        raise InvalidRequest(
            "a region bounds edits, and no image is edited by its caption; leave region out",
            pointer="/region",
        )
    if create.refused_faults and create.preservation == "none":
        raise InvalidRequest(
            "faults are refused, and none is measured; leave preservation out", pointer="/preservation"
        )
    if create.region not in OF_MASKS and (untold := sorted({*create.refused_faults} & {*OF_REGIONS})):
        raise InvalidRequest(
            f"{untold[0]!r} is told of edits with a region alone; leave it out, or ask for one of masks, "
            "as 'background' is",
            pointer="/refused_faults",
        )
    if (create.refused_faults or create.preservation == "all") and not create.edits_captions:
        field = "preservation" if create.preservation == "all" else "refused_faults"
        raise InvalidRequest(
            f"preservation is measured of edits, and no image is edited by its caption; leave {field} out",
            pointer=f"/{field}",
        )


def _require_edits(name: str, preset: EditorPreset, create: StressTestCreate) -> None:
    """Refuse a preset whose backend edits by no caption, and strengths where it has none."""
    able = preset.capabilities
    if not (able.captions or able.instruction):
        raise InvalidRequest(
            f"the preset {name!r} is for the backend {preset.backend!r}, which lacks both 'captions' and "
            "'instruction'; a stress test edits images by their captions: choose another preset",
            pointer="/preset",
        )
    if create.strength is not None and not able.levels:
        raise InvalidRequest(
            f"the preset {name!r} is for the backend {preset.backend!r}, which lacks 'levels'; leave "
            "strength out",
            pointer="/strength",
        )


def _swept(preset: EditorPreset, create: StressTestCreate) -> EditorPreset:
    if create.strength is None or not preset.capabilities.levels:
        return preset
    return preset.with_sweep(create.strength)


def _model_names(suite: Suite, perturber: str) -> dict[str, str]:
    return {
        "captioner": suite.captioner.model,
        "perturber": perturber,
        "editor": suite.editor.model,
        "scorer": suite.scorer.clip,
        "sentence": suite.scorer.sentence,
        "masked-lm": suite.scorer.masked_lm,
    }


def leave_out(sources: SourceTable, names: Sequence[str]) -> tuple[SourceTable, list[str]]:
    """Separate the sources to test from the ids of those that ``names`` excludes.

    A name is an id, a file name, or ``class/file name``.

    Raises:
        InvalidRequest: a name matches no source, or images of several classes.
    """
    # Without names, no file name is read.
    named = _named(sources, names) if names else {}
    _refuse("the dataset has no image named", [name for name in names if not named[name]])
    shared = [name for name in names if len({label for _, label in named[name]}) > 1]
    _refuse("several classes have images (write class/name to choose one) named", shared)
    out = {identity for name in names for identity, _ in named[name]}
    return sources.without_id(out), sorted(out)


def _named(sources: SourceTable, names: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return id and label of the sources that each name stands for."""
    named: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
    for number, filename in enumerate(sources.details.filenames()):
        identity, label = sources.id(number), sources.label(number)
        for name in {identity, filename, f"{label}/{filename}"} & named.keys():
            named[name].append((identity, label))
    return named


def _refuse(fault: str, names: Sequence[str]) -> None:
    if names:
        raise InvalidRequest(f"{fault} {', '.join(map(repr, dict.fromkeys(names)))}", pointer="/exclude")


_MOST_CHARACTERS = 200


def check_interventions(interventions: Sequence[Intervention]) -> None:
    """Refuse words that hide letters or that a model could mistake for a part of its prompt's frame.

    Raises:
        InvalidRequest: a word is refused; the pointer names the intervention and the word.
    """
    for index, intervention in enumerate(interventions):
        for name, text in (("removed", intervention.removed), ("added", intervention.added)):
            if text:
                check_words(text, field=f"interventions/{index}/{name}", most=_MOST_CHARACTERS)
