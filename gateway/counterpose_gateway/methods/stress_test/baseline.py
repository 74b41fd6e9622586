"""The baseline of a stress test: what its classifiers answer to the user's images before any is changed.

It is measured when the run is created, so that a run that is stopped or keeps no edit has it too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import islice

import numpy as np

from counterpose_core.contract.base import MAX_BATCH, Problem
from counterpose_core.contract.baselines import ClassifierBaseline, Confusion, Mistake
from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.contract.runs import PredictionPair
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.errors import BackendError, CounterposeError
from counterpose_core.statistics.bootstrap import proportion
from counterpose_gateway.runs.classifiers import placed
from counterpose_gateway.runs.predictions import prediction_pair
from counterpose_gateway.runs.source_table import SourceTable, TableSource
from counterpose_gateway.services.ports import Services

MOST_IMAGES = MAX_BATCH
"""One call of each classifier: a run's creation waits for it."""

MOST_ANSWERS = 512
"""Of all classifiers together: a zoo of 64 answers about 8 images each."""

LEAST_IMAGES = 8
MOST_CONFUSIONS, MOST_MISTAKES = 10, 6


async def measure_baseline(
    create: StressTestCreate, sources: SourceTable, classes: Sequence[str], services: Services
) -> list[ClassifierBaseline]:
    """Show the first sources, which take the classes in turn, to each classifier.

    A classifier that cannot be called now is left out: the run may come when it can.

    Raises:
        RequestError: a classifier refuses such a call.
    """
    most = max(LEAST_IMAGES, MOST_ANSWERS // max(1, len(create.classifiers)))
    first = list(islice(sources.rows(), min(MOST_IMAGES, most)))
    asked = (
        _baseline(at, create, first, len(sources), classes, services) for at in range(len(create.classifiers))
    )
    return [each for each in await asyncio.gather(*asked) if each is not None]


async def _baseline(
    at: int,
    create: StressTestCreate,
    first: Sequence[TableSource],
    of: int,
    classes: Sequence[str],
    services: Services,
) -> ClassifierBaseline | None:
    spec = create.classifiers[at]
    request = ClassifyRequest(
        classifier=spec,
        images=[source.image for source in first],
        classes=list(classes),
        label_map=create.label_map,
    )
    try:
        with placed(at):
            outcomes = (await services.classifiers.classify(request)).outcomes
    except BackendError:
        return None
    answered: list[tuple[TableSource, PredictionPair]] = []
    problems: list[Problem] = []
    for source, outcome in zip(first, outcomes, strict=True):
        try:
            answered.append((source, prediction_pair(outcome.unwrap(), source.label, classes)))
        except CounterposeError as error:
            problems.append(Problem.of(error))
    told = Counter(problem.detail for problem in problems).most_common(1)
    wrong = [(source, pair) for source, pair in answered if pair.rank_true > 1]
    taken = Counter((source.label, pair.top[0][0]) for source, pair in wrong)
    # Stable: of equally sure ones, the first in the order of the plan.
    surest = np.argsort([-pair.top[0][1] for _, pair in wrong], kind="stable")[:MOST_MISTAKES].tolist()
    return ClassifierBaseline(
        classifier=spec,
        accuracy=proportion(len(answered) - len(wrong), len(answered)),
        of=of,
        unanswered=len(problems),
        detail=told[0][0] if told else None,
        confusions=[
            Confusion(label=label, answer=answer, images=number)
            for (label, answer), number in taken.most_common(MOST_CONFUSIONS)
        ],
        mistakes=[_mistake(*wrong[place]) for place in surest],
    )


def _mistake(source: TableSource, pair: PredictionPair) -> Mistake:
    answer, p = pair.top[0]
    return Mistake(image=source.image, source=source.id, label=source.label, answer=answer, p=p)
