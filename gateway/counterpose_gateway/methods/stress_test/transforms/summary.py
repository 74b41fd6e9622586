"""Sum up a stress test of operations: the controls, what each operation costs, and a verdict in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from counterpose_core.contract.findings import ClassifierVerdict
from counterpose_core.contract.recipes import PLACEBO
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.scorer import Segment
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.contract.transforms import (
    MaskSummary,
    OperationFigure,
    OperationLevel,
    OperationState,
    TransformSummary,
    headline_level,
)
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.statistics.bounded_mean import bounded_mean
from counterpose_core.stress_test.confirmation import MARGIN
from counterpose_core.stress_test.operations import LevelTest, PairedAnswers, operation_tests
from counterpose_core.tasks import figures_of
from counterpose_core.types import Cost, Estimate
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.summary import unanswered_by
from counterpose_gateway.methods.stress_test.transforms.class_findings import class_tests
from counterpose_gateway.methods.stress_test.transforms.fresh_images import pairs_left, without
from counterpose_gateway.methods.stress_test.transforms.given import ORIGINAL
from counterpose_gateway.methods.stress_test.transforms.operation_answers import (
    CONTROL,
    Image,
    OperationAnswers,
)
from counterpose_gateway.methods.stress_test.transforms.segments import trusted_masks, with_masks
from counterpose_gateway.methods.stress_test.transforms.sentences import (
    beside,
    doubt,
    operation_sentence,
    real_loss,
    too_few_right,
)
from counterpose_gateway.methods.stress_test.transforms.severity.answers import SeverityAnswers
from counterpose_gateway.methods.stress_test.transforms.severity.image_answers import classes_of
from counterpose_gateway.methods.stress_test.transforms.severity.summary import with_severity
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.summaries.accounting import ends_of, wall_seconds

FLIPPED = 12
"""Images that are listed of each level: those of the surest answers before."""

_WORST_FIRST = {"breaks": 0, "suspected": 1, "cannot-tell": 2, "holds": 3}


@dataclass
class _Counts:
    """What a run's items count and cost; ``used`` are the images and groups that a proof may not take."""

    used: set[str]
    states: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    missing: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    segments: dict[str, Segment | None] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    seconds: Counter[str] = field(default_factory=Counter)
    images: int = 0

    def take(self, item: Item, group: str) -> None:
        """Count one item."""
        self.used |= {item.item_group, item.source_image, group}
        self.states[item.state] += 1
        if item.state == "failed":
            self.codes[item.code or "unknown"] += 1
        if item.result is None:
            return
        self.cost += item.result.cost
        self.seconds.update(item.result.service_seconds)
        # A later stage asks more of the same images.
        self.images += item.stage == 1
        self.segments[item.item_group] = item.result.segment
        for name, why in item.result.unanswered.items():
            self.missing[name][why] += 1


def summarize_operations(
    run: Run,
    items: Iterable[Item],
    config: StressTestConfig,
    table: SourceTable | None = None,
    after: int = 0,
) -> StressTestSummary:
    """Sum up a run of operations so far; proofs take images of ``table``, ``after`` findings come first."""
    plan = config.transforms
    estimator = LanceEstimator(config.request.seed)
    planned = {} if plan is None else plan.operations
    scaled, given = (False, None) if plan is None else (plan.scaled, plan.given)
    severity = None if plan is None or plan.severity is None else SeverityAnswers(config)
    names = config.request.classifiers if severity is None else ()
    answered = {name: OperationAnswers(name, planned, scaled, given=given) for name in names}
    counts = _Counts(set(config.excluded))
    for item in items:
        group = config.groups.get(item.item_group, item.item_group)
        counts.take(item, group)
        if severity is not None:
            severity.add(item.item_group, item.label, item.stage, item.state, item.result)
        for found in answered.values():
            if item.result is not None:
                found.labels[item.item_group] = item.label
                found.add(item.item_group, group, item.result.transformed, item.result.left_out)
    answered = answered if severity is None else severity.chosen()
    masks = trusted_masks(config, counts.segments, answered.values(), estimator)
    tests = answered if severity is None else severity.tests(run)
    told = _told(config, counts.images, answered, tests, masks, estimator, after)
    told = told if severity is None else with_severity(told, severity, estimator)
    verdicts = [_verdict(name, told.figures, tests[name]) for name in _worst_first(config, told.figures)]
    return StressTestSummary(
        task=figures_of(config.request.task, config.labelled),
        run_id=run.id,
        dataset=run.dataset,
        seed=config.request.seed,
        verdict="\n".join(each.sentence for each in verdicts),
        verdicts=verdicts,
        baseline=config.baseline,
        models={},
        edit_types={},
        insights=[],
        counts=ends_of(counts.states),
        **{"yield": {}},
        dropped={},
        failed_codes=dict(counts.codes),
        cost=counts.cost,
        service_seconds=dict(sorted(counts.seconds.items())),
        wall_s=wall_seconds(run),
        config=run.resolved_config,
        excluded_sources=len(config.excluded),
        unanswered=unanswered_by(counts.missing, counts.images),
        pairs_left={} if table is None else pairs_left(told, without(table, counts.used)),
        # What is shown of a class is decided: any fresh image makes it surer.
        least_pairs={} if told.classes is None else {each.number: 1 for each in told.classes.findings},
        transforms=told,
    )


def _told(
    config: StressTestConfig,
    images: int,
    answered: Mapping[str, OperationAnswers],
    tests: Mapping[str, OperationAnswers],
    masks: MaskSummary | None,
    estimator: LanceEstimator,
    after: int,
) -> TransformSummary:
    plan = config.transforms
    least = 0.0 if plan is None else plan.least_loss
    figures = [with_masks(each, masks) for each in _figures(tests, estimator, after, least)]
    return TransformSummary(
        images=images,
        groups=max((len(set(found.groups.values())) for found in answered.values()), default=0),
        size=None if plan is None else plan.size,
        among={name: len(classes_of(config, name)) for name in config.request.classifiers},
        tested=len(figures),
        margin=MARGIN,
        least_loss=least,
        controls={name: _accuracy(found, CONTROL, estimator) for name, found in answered.items()},
        placebos={name: _placebo(name, found, estimator) for name, found in answered.items()},
        figures=figures,
        classes=class_tests(tests, estimator, after=after + len(figures), least_loss=least),
        masks=masks,
        left_out=({} if plan is None else plan.left_out) | _impossible(tests.values()),
        given=None if plan is None else plan.given,
        making={
            name: found.making.loss(estimator.generator(f"operation/{name}/{ORIGINAL}"))
            for name, found in answered.items()
            if (ORIGINAL, 0) in found.pairs
        },
    )


def _impossible(answered: Iterable[OperationAnswers]) -> dict[str, str]:
    """Why an operation has no figure of any classifier, by its name."""
    told, shown = dict[str, str](), set[str]()
    for found in answered:
        told |= {name: next(iter(of.values())) for name, of in found.why.items()}
        shown |= {name for name in found.operations if found.sources(name)}
    return {name: why for name, why in told.items() if name not in shown}


def _figures(
    answered: Mapping[str, OperationAnswers], estimator: LanceEstimator, after: int, least: float
) -> list[OperationFigure]:
    by_level: dict[tuple[str, str], dict[int, PairedAnswers]] = {}
    for name, found in answered.items():
        for operation in found.operations:
            if found.sources(operation):
                levels = found.levels(operation)
                by_level[name, operation] = {level: found.paired((operation, level)) for level in levels}
    generators = {key: estimator.generator(f"operation/{'/'.join(key)}") for key in by_level}
    figures = [
        _figure(operation, tests, answered[name], estimator, least)
        for (name, operation), tests in operation_tests(by_level, generators, least).items()
    ]
    figures.sort(key=lambda each: (each.classifier, each.operation))
    figures.sort(key=lambda each: (_WORST_FIRST[each.state], -(each.headline.loss.estimate or 0.0)))
    return [each.model_copy(update={"number": place}) for place, each in enumerate(figures, after + 1)]


def _figure(
    operation: str,
    tests: Sequence[LevelTest],
    found: OperationAnswers,
    estimator: LanceEstimator,
    least: float,
) -> OperationFigure:
    name, row = found.classifier, found.row(operation)
    levels = [
        OperationLevel(
            level=test.level,
            words=row.in_words(test.level, scaled=found.scaled),
            accuracy=_accuracy(found, (operation, test.level), estimator),
            loss=test.loss,
            lost=test.answers.lost,
            gained=test.answers.gained,
            p=test.p,
            shown=test.shown,
            real=test.real,
            flipped=found.flipped((operation, test.level), FLIPPED),
            placebo=_placebo_beside((operation, test.level), found, estimator),
        )
        for test in tests
    ]
    told = headline_level(levels)
    before, images = tests[0].answers.before, len(found.sources(operation))
    too_few = too_few_right(name, int(before.sum()), before.size)
    holds = too_few is None and all(test.is_harmless for test in tests)
    undecided: OperationState = "holds" if holds else "cannot-tell"
    state = found.shown if told.shown else undecided
    return OperationFigure(
        classifier=name,
        operation=operation,
        title=row.called(scaled=found.scaled),
        family=row.family,
        changes=row.changes,
        keeps=row.keeps,
        state=state,
        from_level=told.level if told.shown else None,
        images=images,
        left_out=len(found.why.get(operation, {})),
        reasons=dict(Counter(found.why.get(operation, {}).values())),
        sentence=too_few
        if too_few is not None and not told.shown
        else operation_sentence(state, name, told.words, told.loss, (told.lost, images, told.gained))
        + beside(told)
        + real_loss(levels, told, least)
        + doubt(state, levels),
        levels=levels,
    )


def _worst_first(config: StressTestConfig, figures: Sequence[OperationFigure]) -> list[str]:
    """The classifiers as their worst operations stand; those without any last."""
    order = {each.classifier: place for place, each in reversed(list(enumerate(figures)))}
    return sorted(config.request.classifiers, key=lambda name: order.get(name, len(figures)))


def _verdict(name: str, figures: Sequence[OperationFigure], found: OperationAnswers) -> ClassifierVerdict:
    own = [each for each in figures if each.classifier == name]
    if not own:
        sentence = f"{name} has no operation that is tested yet."
        return ClassifierVerdict(classifier=name, state="test-unfit", finding=None, sentence=sentence)
    counts = Counter(each.state for each in own)
    holding = "1 holds" if counts["holds"] == 1 else f"{counts['holds']} hold"
    rest = f"{holding}, {counts['cannot-tell']} cannot be decided."
    kind = "operations" if found.given is None else "given changes"
    if hurting := counts[found.shown]:
        hurt = "is" if hurting == 1 else "are"
        hurt = f"{hurt} suspected" if found.shown != "breaks" else "hurts" if hurting == 1 else "hurt"
        of_all = f" Of {len(own)} {kind}, {hurting} {hurt}, {rest}" if len(own) > 1 else ""
        sentence = own[0].sentence + of_all
        return ClassifierVerdict(classifier=name, state=found.shown, finding=None, sentence=sentence)
    sentence = f"{name}: of {len(own)} {kind} on {len(found.groups)} images none is shown to hurt; {rest}"
    if len(own) == 1:
        outcome = "holds" if counts["holds"] else "cannot be decided"
        unshown = f"{own[0].operation} is not shown to hurt on {len(found.groups)} images"
        sentence = f"{name}: {unshown}; it {outcome}."
    state: OperationState = "cannot-tell" if counts["cannot-tell"] else "holds"
    return ClassifierVerdict(classifier=name, state=state, finding=None, sentence=sentence)


def _accuracy(found: OperationAnswers, image: Image, estimator: LanceEstimator) -> Estimate:
    right, units = found.right(image), found.paired(image).groups
    if np.unique(units).size == units.size:
        return proportion(int(right.sum()), right.size)
    means = np.bincount(units, weights=right) / np.bincount(units)
    return bounded_mean(
        means,
        estimator.generator(f"operation/{found.classifier}/{image[0]}/{image[1]}/accuracy"),
        bounds=(0.0, 1.0),
    )


def _placebo_beside(image: Image, found: OperationAnswers, estimator: LanceEstimator) -> Estimate | None:
    """The loss by the placebo of an operation at a level, over the operation's images."""
    pairs = found.placebo(image)
    if pairs is None:
        return None
    return pairs.loss(estimator.generator(f"operation/{found.classifier}/{image[0]}/{image[1]}/placebo"))


def _placebo(name: str, found: OperationAnswers, estimator: LanceEstimator) -> Estimate:
    if not found.sources(PLACEBO):
        return proportion(0, 0)
    return found.paired((PLACEBO, 0)).loss(estimator.generator(f"operation/{name}/{PLACEBO}"))
