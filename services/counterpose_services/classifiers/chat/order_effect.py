"""The effect of the labels' order on a model that chats: the same images, asked in rotations of the list."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest, rotations
from counterpose_core.errors import InvalidRequest
from counterpose_core.statistics.bootstrap import bootstrap_mean, proportion
from counterpose_core.types import Estimate
from counterpose_services.classifiers.chat.chat_classifier import ChatClassifier


def order_effect(classifier: ChatClassifier, request: OrderEffectRequest) -> OrderEffect:
    """Ask about each image in every rotation; an image that has no label in one of them is left out.

    Raises:
        UnknownModel, ClassMapMismatch, ...: as `ChatClassifier.question`.
        InvalidRequest: the suite measures it on no image.
    """
    images = list(dict.fromkeys(request.images))[: classifier.order_images]
    if not images:
        raise InvalidRequest(
            f"the suite measures no order of {request.classifier!r}; set order_images above 0 in its section",
            pointer="/classifier",
        )
    labels = len(request.classes)
    turned = [classifier.question(request.classes, rotation=first) for first in rotations(labels)]
    answers = np.full((len(images), len(turned)), -1)
    for order, question in enumerate(turned):
        outcomes, _ = classifier.ask(images, question)
        for place, outcome in enumerate(outcomes):
            if outcome.value is not None:
                answers[place, order] = int(outcome.value.argmax())
    whole = answers[(answers >= 0).all(axis=1)]
    changed = int((whole != whole[:, :1]).any(axis=1).sum())
    every = len(turned) == labels
    generator = np.random.default_rng(request.seed)

    def listed(place: int) -> Estimate | None:
        named = whole == [question.order[place] for question in turned]
        return bootstrap_mean(_means(named), generator, bounds=(0.0, 1.0)) if every else None

    return OrderEffect(
        orders=len(turned),
        changes=proportion(changed, len(whole)),
        first=listed(0),
        last=listed(-1),
        even=1.0 / labels,
        unanswered=len(images) - len(whole),
    )


def _means(named: np.ndarray) -> Sequence[float]:
    return [float(mean) for mean in named.mean(axis=1)]
