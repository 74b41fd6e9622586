"""The predictions of a run's classifiers, reduced to what the summaries need."""

from __future__ import annotations

import math
from collections.abc import Coroutine, Sequence
from functools import partial

import numpy as np

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.runs import PredictionPair
from counterpose_core.errors import BadBackendOutput, CounterposeError, NoLabel
from counterpose_gateway.runs.calls import Calls, repeated, together

# Rounded probabilities sum to a little more than 1.
_MASS_SLACK = 1e-3
_LISTED = 5

Answers = dict[str, Outcome[Prediction]]


async def classify_images(
    calls: Calls, specs: Sequence[str], images: list[str], classes: Sequence[str], *, spare: bool = False
) -> dict[str, Answers]:
    """Ask every classifier about every image; an image that one cannot read fails without the others.

    With ``spare``, a classifier that is down fails on all images instead, if another one is not.

    Raises:
        BackendError: a classifier is down.
    """
    asked = [partial(_classify, calls, spec, images, classes) for spec in specs]
    if not spare:
        return dict(zip(specs, await together(each() for each in asked), strict=True))
    found = await together(_spared(repeated(each), images) for each in asked)
    errors = [error for _, error in found if error is not None]
    if len(errors) == len(found):
        raise errors[0]
    return dict(zip(specs, (answers for answers, _ in found), strict=True))


async def _spared(
    asked: Coroutine[None, None, Answers], images: Sequence[str]
) -> tuple[Answers, CounterposeError | None]:
    """The answers, or the error as that of every image; not the error alone, as `together` would raise it."""
    try:
        return await asked, None
    except CounterposeError as error:
        return {image: Outcome(problem=Problem.of(error)) for image in images}, error


async def _classify(calls: Calls, spec: str, images: list[str], classes: Sequence[str]) -> Answers:
    request = ClassifyRequest(classifier=spec, images=images, classes=list(classes))
    classify = calls.services.classifiers.classify
    outcomes = await calls.ask("classifiers", classify, request, model=f"classifier:{spec}")
    return dict(zip(images, outcomes, strict=True))


def prediction_pairs(
    answers: dict[str, Answers], image: str, label: str, classes: Sequence[str]
) -> dict[str, PredictionPair]:
    """Reduce every classifier's answer on one image, by the classifier's name.

    Raises:
        CounterposeError: a classifier could not read the image.
        BadBackendOutput: a classifier's probabilities are not valid.
    """
    return {
        spec: prediction_pair(outcomes[image].unwrap(), label, classes) for spec, outcomes in answers.items()
    }


def answered_pairs(
    answers: dict[str, Answers], image: str, label: str, classes: Sequence[str]
) -> tuple[dict[str, PredictionPair], dict[str, str]]:
    """Reduce the answers on one image by the classifier's name, and say why each of the others has none.

    Raises:
        CounterposeError: no classifier could read the image; that one names no label is an answer.
    """
    pairs, errors = dict[str, PredictionPair](), dict[str, CounterposeError]()
    for spec, outcomes in answers.items():
        try:
            pairs[spec] = prediction_pair(outcomes[image].unwrap(), label, classes)
        except CounterposeError as error:
            errors[spec] = error
    failures = [error for error in errors.values() if not isinstance(error, NoLabel)]
    if failures and not pairs:
        raise failures[0]
    return pairs, {spec: error.detail for spec, error in errors.items()}


def prediction_pair(prediction: Prediction, label: str, classes: Sequence[str]) -> PredictionPair:
    """Reduce probabilities over ``classes`` to p(label), the label's rank from 1 and the five best.

    Raises:
        BadBackendOutput: the number of probabilities is wrong, or they are not probabilities.
    """
    probabilities = np.asarray(prediction.probabilities, dtype=np.float64)
    if probabilities.shape != (len(classes),):
        raise BadBackendOutput(
            f"the classifier returned {probabilities.size} probabilities for {len(classes)} classes"
        )
    inside = np.all((probabilities >= -_MASS_SLACK) & (probabilities <= 1.0 + _MASS_SLACK))
    if not inside or not math.fsum(prediction.probabilities) <= 1.0 + _MASS_SLACK:
        raise BadBackendOutput("the classifier returned numbers that are not probabilities")
    # Stable: ties rank by the order of the classes, on every machine.
    order = np.argsort(-probabilities, kind="stable").tolist()
    true = list(classes).index(label)
    return PredictionPair(
        p_true=float(probabilities[true]),
        rank_true=order.index(true) + 1,
        top=[(classes[index], float(probabilities[index])) for index in order[:_LISTED]],
    )
