"""The baseline of a stress test: what its classifiers answer to the user's images before any is changed.

It is measured when the run is created, so that a run that is stopped or keeps no edit has it too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np
import scipy

from counterpose_core.blobs import cache_key
from counterpose_core.contract.base import MAX_BATCH
from counterpose_core.contract.baselines import (
    BetterPreparation,
    ClassifierBaseline,
    ConfusedClasses,
    Mistake,
)
from counterpose_core.contract.classifiers import ClassifyRequest, DescribeRequest
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.errors import BackendError, CounterposeError
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.statistics.coded import Flags
from counterpose_core.tasks import Task, Truth, task_of
from counterpose_gateway.records.source_table import SourceTable, TableSource
from counterpose_gateway.runs.calls import together
from counterpose_gateway.services.ports import Classifiers, Services
from counterpose_gateway.steps.classifiers import placed

MOST_IMAGES = MAX_BATCH
"""One call of each classifier: a run's creation waits for it."""

MOST_ANSWERS = 512
"""Of all classifiers together: a zoo of 64 answers about 8 images each."""

MOST_OTHERWISE = 48
"""Images shown in each other preparation: enough to tell a gain of a quarter, in seconds on a CPU."""

LEAST_IMAGES = 8
LEAST_WRONG, LEAST_GAIN, LEVEL = 3, 0.1, 0.05
"""Who is wrong so often is fed otherwise; a preparation is much better by this share, and by a test."""

MOST_CONFUSIONS, MOST_MISTAKES = 10, 6

_MEASURING: dict[tuple[Classifiers, str], asyncio.Future[list[ClassifierBaseline | None]]] = {}
"""What is being measured now, by the classifiers' port and by all that the answers depend on."""


async def measure_baseline(
    create: StressTestCreate,
    sources: SourceTable,
    classes: Sequence[str],
    services: Services,
    others: Mapping[str, Sequence[str]],
) -> list[ClassifierBaseline]:
    """Show the first sources, which take the classes in turn, to each classifier.

    A classifier that cannot be called now is left out: the run may come when it can. Each answers among
    ``classes``, and among those that ``others`` has of it.

    Who asks the same meanwhile waits for the same answers: a client that waits no longer sends its request
    again. They are not kept, as another model may have the name by then.

    Raises:
        RequestError: a classifier refuses such a call.
    """
    most = max(LEAST_IMAGES, MOST_ANSWERS // max(1, len(create.classifiers)))
    first = list(islice(sources.rows(), min(MOST_IMAGES, most)))
    inputs = cache_key(
        classifiers=create.classifiers,
        label_map=create.label_map,
        task=create.task,
        classes=list(classes),
        others=dict(others),
        images=[(source.id, source.image, source.label) for source in first],
        of=len(sources),
    )
    key = services.classifiers, inputs
    if (measuring := _MEASURING.get(key)) is None:
        asked = (
            _baseline(at, create, first, len(sources), [*classes, *others.get(spec, ())], services)
            for at, spec in enumerate(create.classifiers)
        )
        measuring = _MEASURING[key] = asyncio.ensure_future(together(asked))
        measuring.add_done_callback(lambda _: _MEASURING.pop(key))
    # Shielded: of several who wait, one may be gone.
    return [each for each in await asyncio.shield(measuring) if each is not None]


async def _baseline(
    at: int,
    create: StressTestCreate,
    first: Sequence[TableSource],
    of: int,
    classes: Sequence[str],
    services: Services,
) -> ClassifierBaseline | None:
    spec, task = create.classifiers[at], task_of(create.task, classes)
    request = ClassifyRequest(
        classifier=spec,
        images=[source.image for source in first],
        classes=list(classes),
        label_map=create.label_map,
    )
    try:
        with placed(at):
            found = await _answers(request, first, task, services)
    except BackendError:
        return None
    answered, problems = list[tuple[TableSource, Scored]](), list[CounterposeError]()
    for source, each in zip(first, found, strict=True):
        if isinstance(each, Scored):
            answered.append((source, each))
        else:
            problems.append(each)
    told = Counter(error.detail for error in problems).most_common(1)
    wrong = [(source, pair) for source, pair in answered if not pair.right]
    taken = Counter((source.label, pair.answer) for source, pair in wrong)
    # Stable: of equally sure ones, the first in the order of the plan.
    surest = np.argsort([-pair.share for _, pair in wrong], kind="stable")[:MOST_MISTAKES].tolist()
    tried, better = None, None
    if len(wrong) >= LEAST_WRONG:
        tried, better = await _fed_otherwise(request, first, task, _right(found), services)
    return ClassifierBaseline(
        classifier=spec,
        tried=tried,
        better=better,
        accuracy=proportion(len(answered) - len(wrong), len(answered)),
        of=of,
        unanswered=len(problems),
        detail=told[0][0] if told else None,
        confusions=[
            ConfusedClasses(label=label, answer=answer, images=number)
            for (label, answer), number in taken.most_common(MOST_CONFUSIONS)
        ],
        mistakes=[_mistake(*wrong[place]) for place in surest],
    )


async def _answers(
    request: ClassifyRequest, sources: Sequence[TableSource], task: Task, services: Services
) -> list[Scored | CounterposeError]:
    """Return the answer to each image, or why there is none."""
    found = list[Scored | CounterposeError]()
    outcomes = (await services.classifiers.classify(request)).outcomes
    for source, outcome in zip(sources, outcomes, strict=True):
        try:
            found.append(task.scored(outcome.unwrap(), Truth.of(source)))
        except CounterposeError as error:
            found.append(error)
    return found


def _right(found: Sequence[Scored | CounterposeError]) -> Flags:
    return np.array([isinstance(each, Scored) and each.right for each in found])


async def _fed_otherwise(
    request: ClassifyRequest,
    sources: Sequence[TableSource],
    task: Task,
    right: Flags,
    services: Services,
) -> tuple[int | None, BetterPreparation | None]:
    """Show the first images in other preparations; return how many, and the best if much better."""
    sources, right = sources[:MOST_OTHERWISE], right[:MOST_OTHERWISE]
    request = request.model_copy(update={"images": request.images[:MOST_OTHERWISE]})
    try:
        asked = DescribeRequest(classifier=request.classifier)
        preparations = (await services.classifiers.describe(asked)).preparations
        others = {
            words: _right(
                await _answers(request.model_copy(update={"prepared": name}), sources, task, services)
            )
            for name, words in preparations.items()
        }
    except CounterposeError:
        # The figures as it is fed stand without them.
        return None, None
    if not others:
        return 0, None
    best = max(others, key=lambda words: int(others[words].sum()))
    gained, lost = int((others[best] & ~right).sum()), int((right & ~others[best]).sum())
    # McNemar's exact test of one side, for the best of several.
    p = scipy.stats.binom.sf(gained - 1, gained + lost, 0.5) * len(others)
    if gained - lost < LEAST_GAIN * len(right) or p > LEVEL:
        return len(others), None
    figure = proportion(int(others[best].sum()), len(right))
    return len(others), BetterPreparation(name=best, accuracy=figure)


def _mistake(source: TableSource, pair: Scored) -> Mistake:
    answer, p = pair.shown[0]
    return Mistake(image=source.image, source=source.id, label=source.label, answer=answer, p=p)
