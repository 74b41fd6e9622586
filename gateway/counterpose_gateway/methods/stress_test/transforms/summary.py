"""Sum up a stress test of operations: the controls, what each operation costs, and a verdict in words."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from counterpose_core.contract.findings import ClassifierVerdict
from counterpose_core.contract.recipes import PLACEBO
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary
from counterpose_core.contract.transforms import (
    OperationFigure,
    OperationLevel,
    OperationState,
    TransformSummary,
)
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.statistics.bounded_mean import bounded_mean
from counterpose_core.stress_test.confirmation import MARGIN
from counterpose_core.stress_test.operations import LevelTest, PairedAnswers, operation_tests
from counterpose_core.transforms.table import OPERATIONS
from counterpose_core.types import Cost, Estimate
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.summary import unanswered_by
from counterpose_gateway.methods.stress_test.transforms.class_findings import class_tests
from counterpose_gateway.methods.stress_test.transforms.operation_answers import (
    CONTROL,
    Image,
    OperationAnswers,
)
from counterpose_gateway.methods.stress_test.transforms.process import classes_of
from counterpose_gateway.runs.accounting import ends_of, wall_seconds

FLIPPED = 12
"""Images that are listed of each level: those of the surest answers before."""

_WORST_FIRST = {"breaks": 0, "cannot-tell": 1, "holds": 2}


def summarize_operations(run: Run, items: Iterable[Item], config: StressTestConfig) -> StressTestSummary:
    """Sum up a run of operations as far as it is done."""
    plan = config.transforms
    estimator = LanceEstimator(config.request.seed)
    groups = {} if config.grouping is None else config.grouping.groups
    planned = {} if plan is None else plan.operations
    scaled = plan is not None and plan.scaled
    answered = {name: OperationAnswers(name, planned, scaled) for name in config.request.classifiers}
    states, codes, missing = Counter[str](), Counter[str](), defaultdict[str, Counter[str]](Counter)
    cost, seconds, images = Cost(), Counter[str](), 0
    for item in items:
        states[item.state] += 1
        if item.state == "failed":
            codes[item.code or "unknown"] += 1
        if item.result is None:
            continue
        cost += item.result.cost
        seconds.update(item.result.service_seconds)
        images += 1
        for name, why in item.result.unanswered.items():
            missing[name][why] += 1
        for found in answered.values():
            found.labels[item.item_group] = item.label
            group = groups.get(item.item_group, item.item_group)
            found.add(item.item_group, group, item.result.transformed, item.result.left_out)
    figures = _figures(answered, estimator)
    verdicts = [_verdict(name, figures, answered[name]) for name in _worst_first(config, figures)]
    return StressTestSummary(
        run_id=run.id,
        dataset=run.dataset,
        seed=config.request.seed,
        verdict="\n".join(each.sentence for each in verdicts),
        verdicts=verdicts,
        baseline=config.baseline,
        models={},
        edit_types={},
        insights=[],
        counts=ends_of(states),
        **{"yield": {}},
        dropped={},
        failed_codes=dict(codes),
        cost=cost,
        service_seconds=dict(sorted(seconds.items())),
        wall_s=wall_seconds(run),
        config=run.resolved_config,
        excluded_sources=len(config.excluded),
        unanswered=unanswered_by(missing, images),
        transforms=TransformSummary(
            images=images,
            groups=max((len(set(found.groups.values())) for found in answered.values()), default=0),
            size=None if plan is None else plan.size,
            among={name: len(classes_of(config, name)) for name in config.request.classifiers},
            tested=len(figures),
            margin=MARGIN,
            controls={name: _accuracy(found, CONTROL, estimator) for name, found in answered.items()},
            placebos={name: _placebo(name, found, estimator) for name, found in answered.items()},
            figures=figures,
            classes=class_tests(answered, estimator),
            left_out=({} if plan is None else plan.left_out) | _impossible(answered.values()),
        ),
    )


def _impossible(answered: Iterable[OperationAnswers]) -> dict[str, str]:
    """Why an operation has no figure of any classifier, by its name."""
    told, shown = dict[str, str](), set[str]()
    for found in answered:
        told |= {name: next(iter(of.values())) for name, of in found.why.items()}
        shown |= {name for name in found.operations if found.sources(name)}
    return {name: why for name, why in told.items() if name not in shown}


def _figures(answered: Mapping[str, OperationAnswers], estimator: LanceEstimator) -> list[OperationFigure]:
    by_level: dict[tuple[str, str], dict[int, PairedAnswers]] = {}
    for name, found in answered.items():
        for operation in found.operations:
            if found.sources(operation):
                levels = found.levels(operation)
                by_level[name, operation] = {level: found.paired((operation, level)) for level in levels}
    generators = {key: estimator.generator(f"operation/{'/'.join(key)}") for key in by_level}
    figures = [
        _figure(operation, tests, answered[name], estimator)
        for (name, operation), tests in operation_tests(by_level, generators).items()
    ]
    figures.sort(key=lambda each: (_WORST_FIRST[each.state], -_worst(each), each.classifier, each.operation))
    return [each.model_copy(update={"number": place}) for place, each in enumerate(figures, start=1)]


def _worst(figure: OperationFigure) -> float:
    """The loss that its sentence tells."""
    return headline_level(figure.levels).loss.estimate or 0.0


def headline_level(levels: Sequence[OperationLevel]) -> OperationLevel:
    """The easiest level that shows a loss; without one, that which may lose most."""
    undecided = max(levels, key=lambda level: level.loss.high or 0.0)
    return next((level for level in levels if level.shown), undecided)


def _figure(
    operation: str, tests: Sequence[LevelTest], found: OperationAnswers, estimator: LanceEstimator
) -> OperationFigure:
    name, row = found.classifier, OPERATIONS[operation]
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
            flipped=found.flipped((operation, test.level), FLIPPED),
            placebo=_placebo_beside((operation, test.level), found, estimator),
        )
        for test in tests
    ]
    told = headline_level(levels)
    too_few = _too_few(name, tests[0].answers)
    holds = too_few is None and all(test.is_harmless for test in tests)
    undecided: OperationState = "holds" if holds else "cannot-tell"
    state = "breaks" if told.shown else undecided
    return OperationFigure(
        classifier=name,
        operation=operation,
        title=row.called(scaled=found.scaled),
        family=row.family,
        changes=row.changes,
        keeps=row.keeps,
        state=state,
        from_level=told.level if told.shown else None,
        images=len(found.sources(operation)),
        left_out=len(found.why.get(operation, {})),
        reasons=dict(Counter(found.why.get(operation, {}).values())),
        sentence=too_few
        if too_few is not None and not told.shown
        else _sentence(name, told, len(found.sources(operation)), state) + _beside(told, state),
        levels=levels,
    )


def _too_few(name: str, answers: PairedAnswers) -> str | None:
    """Why a small loss says nothing: who is right on no more than the margin cannot lose so much."""
    right, images = int(answers.before.sum()), answers.before.size
    if right > MARGIN * images:
        return None
    return (
        f"{name} is right on {right} of {images} images with nothing changed, too few to lose "
        f"{_points(round(100 * MARGIN))} of accuracy."
    )


def _sentence(name: str, level: OperationLevel, images: int, state: str) -> str:
    points = round(100 * (level.loss.estimate or 0.0))
    told = f"{level.lost} of {images} images answered wrong that were right, {level.gained} the other way"
    if state == "breaks":
        return f"{name} loses {_points(points)} of accuracy once the image {level.words}: {told}."
    # Upwards: what is ruled out must not lie inside the interval.
    low, high = math.floor(100 * (level.loss.low or 0.0)), math.ceil(100 * (level.loss.high or 0.0))
    if state == "holds":
        excluded = f"a loss above {_points(high)}" if high > 0 else "a loss"
        return f"{name} holds where the image {level.words}: {excluded} is ruled out; {told}."
    span = f"{max(0, low)} to {_points(high)}"
    return f"{name} may lose {span} where the image {level.words}: {told}; more images decide."


def _beside(level: OperationLevel, state: str) -> str:
    """What the placebo of a background costs, after the sentence of what the background costs."""
    placebo = level.placebo
    if state != "breaks" or placebo is None or placebo.estimate is None:
        return ""
    points, low, high = (
        math.floor(100 * (value or 0.0) + 0.5) for value in (placebo.estimate, placebo.low, placebo.high)
    )
    # The cut alone may cost what the background seems to.
    doubt = ": the cut itself may be what hurts" if (placebo.high or 0.0) >= (level.loss.low or 0.0) else ""
    cost = _points(points) if points > 0 else "nothing"
    beside = "The same cut and paste before its own background, mirrored,"
    return f" {beside} costs {cost} ({low} to {high} points){doubt}."


def _points(number: int) -> str:
    return "1 point" if number == 1 else f"{number} points"


def _worst_first(config: StressTestConfig, figures: Sequence[OperationFigure]) -> list[str]:
    """The classifiers as their worst operations stand; those without any last."""
    order = {each.classifier: place for place, each in reversed(list(enumerate(figures)))}
    return sorted(config.request.classifiers, key=lambda name: order.get(name, len(figures)))


def _verdict(name: str, figures: Sequence[OperationFigure], found: OperationAnswers) -> ClassifierVerdict:
    own = [each for each in figures if each.classifier == name]
    if not own:
        sentence = f"{name} has no image that is answered yet."
        return ClassifierVerdict(classifier=name, state="test-unfit", finding=None, sentence=sentence)
    counts = Counter(each.state for each in own)
    holding = "1 holds" if counts["holds"] == 1 else f"{counts['holds']} hold"
    rest = f"{holding}, {counts['cannot-tell']} cannot be decided."
    if counts["breaks"]:
        sentence = f"{own[0].sentence} In all {counts['breaks']} of {len(own)} operations hurt, {rest}"
        return ClassifierVerdict(classifier=name, state="breaks", finding=None, sentence=sentence)
    sentence = f"{name}: of {len(own)} operations on {len(found.groups)} images none is shown to hurt; {rest}"
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
