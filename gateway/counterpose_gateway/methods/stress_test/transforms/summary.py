"""Sum up a stress test of operations: the controls, what each operation costs, and a verdict in words."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from counterpose_core.contract.findings import ClassifierVerdict
from counterpose_core.contract.recipes import IDENTITY, PLACEBO
from counterpose_core.contract.runs import Item, ItemResult, PredictionPair, Run
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestSummary, Unanswered
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
from counterpose_gateway.methods.stress_test.transforms.process import classes_of
from counterpose_gateway.runs.accounting import ends_of, wall_seconds

FLIPPED = 12
"""Images that are listed of each level: those of the surest answers before."""

_WORST_FIRST = {"breaks": 0, "cannot-tell": 1, "holds": 2}
Image = tuple[str, int]
"""An operation and a level."""


@dataclass
class Answered:
    """The answers of one classifier, photograph by photograph; those without all answers are left out.

    ``pairs`` has for each operation and level the answer to each photograph, in the order of ``sources``.
    """

    sources: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    pairs: dict[Image, list[PredictionPair]] = field(default_factory=lambda: defaultdict(list))
    left_out: int = 0

    def add(self, source: str, group: str, of_images: Mapping[Image, PredictionPair | None]) -> None:
        """Take one photograph, unless an answer to one of its images is missing."""
        if any(pair is None for pair in of_images.values()):
            self.left_out += 1
            return
        self.sources.append(source)
        self.groups.append(group)
        for image, pair in of_images.items():
            if pair is not None:
                self.pairs[image].append(pair)

    @property
    def units(self) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """The number of each photograph's group (n,)."""
        _, units = np.unique(np.array(self.groups, dtype=object), return_inverse=True)
        return units.astype(np.intp)

    def right(self, image: Image) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which photographs are answered rightly (n,)."""
        return np.array([pair.rank_true == 1 for pair in self.pairs[image]], dtype=np.bool_)

    def paired(self, image: Image) -> PairedAnswers:
        """The answers beside those to the control."""
        return PairedAnswers(self.units, self.right((IDENTITY, 0)), self.right(image))

    def flipped(self, image: Image) -> list[str]:
        """The photographs that are no longer answered rightly, the surest before first."""
        answers = self.paired(image)
        lost = np.flatnonzero(answers.before & ~answers.after)
        sure = np.array([self.pairs[IDENTITY, 0][at].p_true for at in lost.tolist()])
        return [self.sources[lost[at]] for at in np.argsort(-sure, kind="stable").tolist()][:FLIPPED]


def summarize_operations(run: Run, items: Iterable[Item], config: StressTestConfig) -> StressTestSummary:
    """Sum up a run of operations as far as it is done."""
    plan = config.transforms
    estimator = LanceEstimator(config.request.seed)
    groups = {} if config.grouping is None else config.grouping.groups
    answered = {name: Answered() for name in config.request.classifiers}
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
        for name, found in answered.items():
            found.add(item.item_group, groups.get(item.item_group, item.item_group), _of(name, item.result))
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
        unanswered=_unanswered(missing, images),
        transforms=TransformSummary(
            images=images,
            groups=max((len(set(found.groups)) for found in answered.values()), default=0),
            size=None if plan is None else plan.size,
            among={name: len(classes_of(config, name)) for name in config.request.classifiers},
            tested=len(figures),
            margin=MARGIN,
            controls={name: _accuracy(found, (IDENTITY, 0)) for name, found in answered.items()},
            placebos={name: _placebo(name, found, estimator) for name, found in answered.items()},
            figures=figures,
            left_out={} if plan is None else plan.left_out,
            unanswered=max((found.left_out for found in answered.values()), default=0),
        ),
    )


def _of(classifier: str, result: ItemResult) -> dict[Image, PredictionPair | None]:
    return {(each.operation, each.level): each.predictions.get(classifier) for each in result.transformed}


def _figures(answered: Mapping[str, Answered], estimator: LanceEstimator) -> list[OperationFigure]:
    by_level: dict[tuple[str, str], dict[int, PairedAnswers]] = defaultdict(dict)
    for name, found in answered.items():
        for operation, level in found.pairs:
            if operation not in (IDENTITY, PLACEBO):
                by_level[name, operation][level] = found.paired((operation, level))
    generators = {key: estimator.generator(f"operation/{'/'.join(key)}") for key in by_level}
    figures = [
        _figure(name, operation, tests, answered[name])
        for (name, operation), tests in operation_tests(by_level, generators).items()
    ]
    return sorted(
        figures, key=lambda each: (_WORST_FIRST[each.state], -_worst(each), each.classifier, each.operation)
    )


def _worst(figure: OperationFigure) -> float:
    """The loss that its sentence tells."""
    return told_level(figure.levels).loss.estimate or 0.0


def told_level(levels: Sequence[OperationLevel]) -> OperationLevel:
    """The easiest level that shows a loss, what is seen there being no extreme; else the hardest level."""
    return next((level for level in levels if level.shown), levels[-1])


def _figure(name: str, operation: str, tests: Sequence[LevelTest], found: Answered) -> OperationFigure:
    row = OPERATIONS[operation]
    levels = [
        OperationLevel(
            level=test.level,
            words=row.in_words(test.level),
            accuracy=_accuracy(found, (operation, test.level)),
            loss=test.loss,
            lost=test.answers.lost,
            gained=test.answers.gained,
            p=test.p,
            shown=test.shown,
            flipped=found.flipped((operation, test.level)),
        )
        for test in tests
    ]
    told = told_level(levels)
    holds = all(test.is_harmless for test in tests)
    undecided: OperationState = "holds" if holds else "cannot-tell"
    state = "breaks" if told.shown else undecided
    return OperationFigure(
        classifier=name,
        operation=operation,
        title=row.title,
        family=row.family,
        changes=row.changes,
        keeps=row.keeps,
        state=state,
        from_level=told.level if told.shown else None,
        sentence=_sentence(name, told, len(found.sources), state),
        levels=levels,
    )


def _sentence(name: str, level: OperationLevel, images: int, state: str) -> str:
    points = round(100 * (level.loss.estimate or 0.0))
    told = f"{level.lost} of {images} images answered wrong that were right, {level.gained} the other way"
    if state == "breaks":
        return f"{name} loses {_points(points)} of accuracy once the image {level.words}: {told}."
    # Upwards: what is ruled out must not lie inside the interval.
    low, high = math.floor(100 * (level.loss.low or 0.0)), math.ceil(100 * (level.loss.high or 0.0))
    if state == "holds":
        return (
            f"{name} holds where the image {level.words}: a loss above {_points(high)} is ruled out; {told}."
        )
    span = f"{max(0, low)} to {_points(high)}"
    return f"{name} may lose {span} where the image {level.words}: {told}; more images decide."


def _points(number: int) -> str:
    return "1 point" if number == 1 else f"{number} points"


def _worst_first(config: StressTestConfig, figures: Sequence[OperationFigure]) -> list[str]:
    """The classifiers as their worst operations stand; those without any last."""
    order = {each.classifier: place for place, each in reversed(list(enumerate(figures)))}
    return sorted(config.request.classifiers, key=lambda name: order.get(name, len(figures)))


def _verdict(name: str, figures: Sequence[OperationFigure], found: Answered) -> ClassifierVerdict:
    own = [each for each in figures if each.classifier == name]
    if not own:
        sentence = f"{name} has no image that is answered yet."
        return ClassifierVerdict(classifier=name, state="test-unfit", finding=None, sentence=sentence)
    counts = Counter(each.state for each in own)
    rest = f"{counts['holds']} hold, {counts['cannot-tell']} cannot be decided."
    if counts["breaks"]:
        sentence = f"{own[0].sentence} In all {counts['breaks']} of {len(own)} operations hurt, {rest}"
        return ClassifierVerdict(classifier=name, state="breaks", finding=None, sentence=sentence)
    sentence = (
        f"{name}: of {len(own)} operations on {len(found.sources)} images none is shown to hurt; {rest}"
    )
    state: OperationState = "cannot-tell" if counts["cannot-tell"] else "holds"
    return ClassifierVerdict(classifier=name, state=state, finding=None, sentence=sentence)


def _accuracy(found: Answered, image: Image) -> Estimate:
    right = found.right(image)
    if len(set(found.groups)) == len(found.groups):
        return proportion(int(right.sum()), right.size)
    units = found.units
    means = np.bincount(units, weights=right) / np.bincount(units)
    return bounded_mean(means, np.random.default_rng(0), bounds=(0.0, 1.0))


def _placebo(name: str, found: Answered, estimator: LanceEstimator) -> Estimate:
    if not found.sources:
        return proportion(0, 0)
    return found.paired((PLACEBO, 0)).loss(estimator.generator(f"operation/{name}/{PLACEBO}"))


def _unanswered(missing: Mapping[str, Counter[str]], images: int) -> list[Unanswered]:
    found = [
        Unanswered(classifier=name, images=why.total(), of=images, detail=why.most_common(1)[0][0])
        for name, why in missing.items()
    ]
    return sorted(found, key=lambda one: (-one.images, one.classifier))
