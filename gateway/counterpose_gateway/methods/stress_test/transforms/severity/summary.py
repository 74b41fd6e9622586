"""Sum up severity: curves, failure points, the level of the stated loss, ranks and mean errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from counterpose_core.contract.severity import (
    LevelOfLoss,
    MeanErrorFigure,
    MonotonicityFigure,
    OperationRanks,
    RankOfLevel,
    RanksAtLevel,
    SeverityFigure,
    SeverityLevel,
    SeveritySummary,
)
from counterpose_core.contract.transforms import TransformSummary
from counterpose_core.errors import InternalError
from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.statistics.bounded_mean import bounded_mean
from counterpose_core.stress_test.severity.curves import TOLERANCE, LevelAnswers, loss_level
from counterpose_core.stress_test.severity.mean_error import (
    corruption_errors,
    is_grid_of_imagenet_c,
    relative_corruption_errors,
)
from counterpose_core.stress_test.severity.ranks import ranks_by_level
from counterpose_core.text.imagenet_hierarchy import CLASSES, hierarchy
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.transforms.severity.answers import Key, SeverityAnswers
from counterpose_gateway.methods.stress_test.transforms.severity.image_answers import classes_of
from counterpose_gateway.methods.stress_test.transforms.severity.sentences import (
    change_sentence,
    plan_sentence,
    severity_sentence,
)

Read = tuple[LevelAnswers, list[str]]


def with_severity(
    told: TransformSummary, answers: SeverityAnswers, estimator: LanceEstimator
) -> TransformSummary:
    """Add where images fail, for each classifier and operation, in the order of the findings."""
    order = [(each.classifier, each.operation) for each in told.figures]
    return told.model_copy(update={"severity": _severity_summary(answers, estimator, order)})


def _severity_summary(
    answers: SeverityAnswers, estimator: LanceEstimator, order: Sequence[Key]
) -> SeveritySummary:
    plan = answers.plan
    if plan.severity is None:
        raise InternalError("the run does not ask for severity")
    # Those without a finding come last.
    read = {key: answers.levels(key) for key in dict.fromkeys([*order, *answers.keys])}
    read = {key: found for key, found in read.items() if found[1]}
    figures = [_figure(key, found[0], answers, estimator) for key, found in read.items()]
    groups = {group: answers.shares[source] for source, group in _groups(answers).items()}
    errors, why = _mean_errors(read, answers, estimator)
    used, of_grid = (sum(getattr(each, name) for each in figures) for name in ("classifications", "of_grid"))
    shares = dict(Counter(groups.values())) if plan.is_adaptive else {}
    return SeveritySummary(
        plan=plan.severity,
        shares={**shares},
        classifications=used,
        of_grid=of_grid,
        figures=figures,
        ranks=[_ranks(name, read, answers, estimator) for name in plan.operations]
        if len(answers.first) > 1
        else [],
        mean_errors=errors,
        why_no_mce=why,
        sentence=plan_sentence(shares, used, of_grid, sum(each.in_full for each in figures)),
    )


def _groups(answers: SeverityAnswers) -> dict[str, str]:
    return {source: group for each in answers.first.values() for source, group in each.groups.items()}


def _figure(
    key: Key, levels: LevelAnswers, answers: SeverityAnswers, estimator: LanceEstimator
) -> SeverityFigure:
    name, operation = key
    row, severity = answers.row(operation), answers.plan.severity
    scaled, loss = answers.plan.scaled, 0.0 if severity is None else severity.loss
    drawn = {
        figure: estimator.generator(f"severity/{name}/{operation}/{figure}")
        for figure in ("accuracy", "loss", "failed")
    }
    losses = [levels.loss(at, drawn["loss"]) for at in range(len(levels.levels))]
    failing = levels.failing().tolist()
    told = [
        SeverityLevel(
            level=level,
            words=row.in_words(level, scaled=scaled),
            accuracy=levels.accuracy(at, drawn["accuracy"]),
            loss=losses[at],
            failing=failing[at],
            failed=levels.failed(at, drawn["failed"]),
        )
        for at, level in enumerate(levels.levels)
    ]
    found = loss_level(levels.levels, losses, loss)
    order = answers.orders[key]
    in_full = answers.in_full(key)
    pairs = answers.every[name].pairs
    figure = SeverityFigure(
        classifier=name,
        operation=operation,
        title=row.called(scaled=scaled),
        images=len(levels.groups),
        groups=int(np.unique(levels.groups).size),
        right=int(levels.before.sum()),
        never=_rest(told[-1].failed),
        levels=told,
        loss_level=LevelOfLoss(loss=loss, level=found.level, low=found.low, high=found.high),
        monotonicity=MonotonicityFigure(
            n=order.n, violated=order.violated, tolerance=TOLERANCE, p=order.p, rejected=order.is_rejected
        ),
        in_full=in_full,
        claimed=answers.claims[key] if answers.plan.is_adaptive else None,
        classifications=sum(len(pairs.get((operation, level), ())) for level in levels.levels),
        of_grid=len(levels.groups) * len(levels.levels),
        sentence="",
    )
    return figure.model_copy(update={"sentence": severity_sentence(figure)})


def _rest(share: Estimate) -> Estimate:
    """One less a share."""
    if share.estimate is None or share.low is None or share.high is None:
        return share
    return Estimate(estimate=1.0 - share.estimate, low=1.0 - share.high, high=1.0 - share.low, n=share.n)


def _ranks(
    operation: str, read: Mapping[Key, Read], answers: SeverityAnswers, estimator: LanceEstimator
) -> OperationRanks:
    row, levels = answers.row(operation), answers.plan.operations[operation]
    own = {name: read[name, operation] for name in answers.first if (name, operation) in read}
    values = _aligned({name: _by_group(found, answers) for name, found in own.items()})
    ranks, changes = ranks_by_level(values, estimator.generator(f"severity/ranks/{operation}"))
    return OperationRanks(
        operation=operation,
        title=row.called(scaled=answers.plan.scaled),
        groups=len(next(iter(values.values()), ())),
        levels=[
            RanksAtLevel(level=level, ranks={name: RankOfLevel(**vars(each)) for name, each in told.items()})
            for level, told in zip((0, *levels), ranks, strict=True)
        ]
        if ranks
        else [],
        changes=[
            change_sentence(first, second, row.in_words(levels[place - 1], scaled=answers.plan.scaled))
            for first, second, place in changes
        ],
    )


def _by_group(found: Read, answers: SeverityAnswers) -> dict[str, Floats]:
    """The values whose mean is the accuracy at level 0 and at each level, by group."""
    levels, sources = found
    every = _groups(answers)
    names = sorted({every[source] for source in sources})
    return dict(zip(names, levels.pseudo_values(), strict=True))


def _aligned(values: Mapping[str, Mapping[str, Floats]]) -> dict[str, Floats]:
    """Of the groups that all classifiers have, in one order."""
    if not values:
        return {}
    common = sorted(set.intersection(*(set(each) for each in values.values())))
    return {name: np.array([own[group] for group in common]) for name, own in values.items()}


def _mean_errors(
    read: Mapping[Key, Read], answers: SeverityAnswers, estimator: LanceEstimator
) -> tuple[list[MeanErrorFigure], str | None]:
    """The mean corruption error of each classifier, or its mean error, and why not the first."""
    plan = answers.plan
    whys = {name: _why_no_mce(name, answers) for name in answers.first}
    why = next((each for each in whys.values() if each is not None), None)
    figures = []
    for name in answers.first:
        own = {key[1]: _by_group(found, answers) for key, found in read.items() if key[0] == name}
        values = _aligned(own)
        if not values or not len(next(iter(values.values()))):
            continue
        errors = np.stack([1.0 - each[:, 1:].mean(axis=1) for each in values.values()], axis=1)
        clean = 1.0 - next(iter(values.values()))[:, 0]
        # A value has the corrections of the images with every level, each as often as there are others.
        spread = 2.0 / plan.severity.full_share if plan.is_adaptive and plan.severity else 0.0
        generator = estimator.generator(f"severity/{name}/error")
        if why is None:
            figure = corruption_errors(errors, list(values))
            relative = relative_corruption_errors(errors, clean, list(values))
            figures.append(
                MeanErrorFigure(
                    classifier=name,
                    name="mean corruption error",
                    figure=bounded_mean(figure, generator, bounds=(0.0, 2.0)),
                    relative=bounded_mean(relative, generator, bounds=(-10.0, 10.0)),
                )
            )
        else:
            mean = bounded_mean(errors.mean(axis=1), generator, bounds=(-spread, 1.0 + spread))
            figures.append(MeanErrorFigure(classifier=name, name="mean error", figure=_inside(mean)))
    return figures, why


def _inside(figure: Estimate) -> Estimate:
    """A share, of which a correction may have gone beyond 0 or 1."""
    ends = {name: min(1.0, max(0.0, getattr(figure, name) or 0.0)) for name in ("estimate", "low", "high")}
    return figure.model_copy(update=ends)


def _why_no_mce(name: str, answers: SeverityAnswers) -> str | None:
    plan = answers.plan
    if plan.is_adaptive:
        return "it takes every level of every image, and most were bisected"
    if not is_grid_of_imagenet_c(plan.operations):
        return "it takes the 15 corruptions of ImageNet-C at their five levels, and no other operation"
    if plan.scaled:
        return "it takes images of 224 pixels, and the levels are scaled to others"
    known, classes = hierarchy().meant, classes_of(answers.config, name)
    of_imagenet = len({known[each.casefold()] for each in classes if each.casefold() in known})
    if not of_imagenet == len(classes) == CLASSES:
        asked = f"{of_imagenet} of these among {len(classes)}"
        return f"it takes the {CLASSES} classes of ImageNet, and {name} answers {asked}"
    return None
