"""What every classifier says about a source and the pictures made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from faultline_core.contract.base import Outcome
from faultline_core.contract.classifiers import ClassifyRequest, Prediction
from faultline_core.contract.runs import PredictionPair
from faultline_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from faultline_core.errors import BadBackendOutput
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.attempt import Attempt, OpenItems, together
from faultline_gateway.workflows.benchmark_pictures import PictureDraft
from faultline_gateway.workflows.pictures import Draft

# Rounded probabilities sum to a little more than 1.
_MASS_SLACK = 1e-3
_LISTED = 5

Answers = dict[str, Outcome[Prediction]]


async def predict(attempt: Attempt, source: LeasedItem, drafts: Sequence[Draft], services: Services) -> None:
    """Predict the source and each draft with every classifier of the run, and record the drafts as done.

    Raises:
        BackendError: a classifier is down, or did not predict the source itself.
    """
    if not drafts:
        return
    # The source goes along each time: both ends of a pair come from the same weights.
    images = list(dict.fromkeys([source.source_image, *(draft.result.image for draft in drafts)]))
    config = attempt.config
    answers = await _ask(attempt, config.request.classifiers, images, config.classes, services)
    # Outside the blame of any one draft: without it none of them can be compared.
    original = _pairs(answers, source.source_image, source.label, config.classes)
    for draft in drafts:
        async with attempt.blaming([draft.item]):
            pairs = _pairs(answers, draft.result.image, source.label, config.classes)
            update = {"predictions": pairs, "original_predictions": original}
            await attempt.done(draft.item, draft.result.model_copy(update=update))


async def predict_pictures(
    attempt: OpenItems, config: ShiftBenchmarkConfig, drafts: Sequence[PictureDraft], services: Services
) -> None:
    """Predict each picture of a benchmark with every classifier of the run, and record it as done.

    Raises:
        BackendError: a classifier is down.
    """
    if not drafts:
        return
    images = list(dict.fromkeys(draft.image for draft in drafts))
    answers = await _ask(attempt, config.request.classifiers, images, config.labels, services)
    for draft in drafts:
        async with attempt.blaming([draft.item]):
            pairs = _pairs(answers, draft.image, draft.item.label, config.labels)
            await attempt.done(draft.item, draft.result.model_copy(update={"predictions": pairs}))


async def _ask(
    attempt: OpenItems, specs: Sequence[str], images: list[str], classes: Sequence[str], services: Services
) -> dict[str, Answers]:
    asked = (_classify(attempt, spec, images, classes, services) for spec in specs)
    return dict(zip(specs, await together(asked), strict=True))


async def _classify(
    attempt: OpenItems, spec: str, images: list[str], classes: Sequence[str], services: Services
) -> Answers:
    request = ClassifyRequest(classifier=spec, images=images, classes=list(classes))
    response = await attempt.call("classifiers", services.classifiers.classify, request)
    attempt.share(response.cost)
    return dict(zip(images, attempt.outcomes(f"classifier:{spec}", response, len(images)), strict=True))


def _pairs(
    answers: dict[str, Answers], image: str, label: str, classes: Sequence[str]
) -> dict[str, PredictionPair]:
    return {spec: prediction_pair(found[image].unwrap(), label, classes) for spec, found in answers.items()}


def prediction_pair(prediction: Prediction, label: str, classes: Sequence[str]) -> PredictionPair:
    """Reduce probabilities over ``classes`` to p(label), the label's rank from 1 and the five best.

    Raises:
        BadBackendOutput: not one probability a class, or no probabilities at all.
    """
    probabilities = np.asarray(prediction.probabilities, dtype=np.float64)
    if probabilities.shape != (len(classes),):
        raise BadBackendOutput(f"{probabilities.size} probabilities were answered for {len(classes)} classes")
    inside = np.all((probabilities >= -_MASS_SLACK) & (probabilities <= 1.0 + _MASS_SLACK))
    if not inside or not math.fsum(prediction.probabilities) <= 1.0 + _MASS_SLACK:
        raise BadBackendOutput("the classifier answered numbers that are no probabilities")
    # Stable: ties rank by the order of the classes, on every machine.
    order = np.argsort(-probabilities, kind="stable").tolist()
    true = list(classes).index(label)
    return PredictionPair(
        p_true=float(probabilities[true]),
        rank_true=order.index(true) + 1,
        top=[(classes[index], float(probabilities[index])) for index in order[:_LISTED]],
    )
