"""The classifiers under test behind one engine: models by name, predictions over the dataset's classes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.classifiers import (
    ClassifierDescription,
    ClassifierList,
    ClassifyRequest,
    ClassifyResponse,
    DescribeRequest,
    Prediction,
)
from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import ClassifiersSuite
from counterpose_core.suite_chats import chats
from counterpose_core.types import Cost
from counterpose_services.batching.outcomes import settle
from counterpose_services.classifiers.chat.chat_classifiers import ChatClassifiers
from counterpose_services.classifiers.chat.order_effect import order_effect
from counterpose_services.classifiers.classifier import Classifier, OverClasses
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.prediction import prediction
from counterpose_services.classifiers.registry import ClassifierRegistry
from counterpose_services.models.cached_forward import Arrays
from counterpose_services.models.model_cache import ModelCache


class ClassifiersEngine:
    """Runs classifiers by spec; recently used ones stay in memory, predictions in the store."""

    def __init__(
        self, registry: ClassifierRegistry, *, cache_bytes: int, chat: ChatClassifiers | None = None
    ) -> None:
        self._registry, self._chat = registry, chat
        self._models: ModelCache[Classifier] = ModelCache(cache_bytes)
        listed = [one.model_dump() for one in self.list_classifiers().classifiers]
        self.identity = ModelIdentity(id="classifiers", revision=cache_key(classifiers=listed))

    @classmethod
    def load(
        cls,
        suite: ClassifiersSuite,
        root: Path,
        store: BlobStore,
        options: ClassifierOptions,
        chat: ChatClassifiers | None = None,
    ) -> ClassifiersEngine:
        """Prepare the suite's classifiers; each is loaded on first use.

        Args:
            suite: names the folders.
            root: the folder of all models.
            store: where images are read and predictions are cached.
            options: the user's classifiers, remote hosts, and the memory for loaded models.
            chat: the suite's classifiers that chat, if it has any.
        """
        registry = ClassifierRegistry(suite, root, store, options)
        return cls(registry, cache_bytes=options.model_cache_bytes, chat=chat)

    def list_classifiers(self) -> ClassifierList:
        """List the classifiers on this machine."""
        chat = [] if self._chat is None else self._chat.describe()
        return ClassifierList(classifiers=[*self._registry.describe(), *chat])

    def describe(self, request: DescribeRequest) -> ClassifierDescription:
        """Describe a classifier; its weights are neither loaded nor downloaded.

        Raises:
            UnknownModel: there is no such classifier.
            BackendError: the classifier is remote and does not answer.
        """
        if self._chat is not None and chats(request.classifier):
            return self._chat.describe_one(request.classifier)
        return self._registry.describe_one(request.classifier, request.function)

    def is_loaded(self, spec: str, function: str | None) -> bool:
        """Return True if a classifier is in memory; never waits for one that is being loaded."""
        return self._models.holds(_key(spec, function))

    def order_effect(self, request: OrderEffectRequest) -> OrderEffect:
        """Measure what the order of the labels does to a model that chats.

        Raises:
            UnknownModel: the suite has no such question, or its model does not see images.
            InvalidRequest: the classifier is no model that chats.
        """
        if self._chat is None or not chats(request.classifier):
            raise InvalidRequest(
                f"{request.classifier!r} reads no list of labels, whose order could matter; name one of the "
                "suite's questions, as chat:<name>",
                pointer="/classifier",
            )
        return order_effect(self._chat.of(request.classifier), request)

    @property
    def loads(self) -> int:
        """How often a classifier was loaded."""
        return self._models.loads

    def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Predict the requested classes of each image.

        Raises:
            UnknownModel: there is no such classifier.
            ModelFormatRefused: its weights are refused.
            ClassMapMismatch: its head has no row for a class.
        """
        started = time.monotonic()
        if len(set(request.classes)) != len(request.classes):
            raise InvalidRequest("a class is asked for twice", pointer="/classes")
        if self._chat is not None and chats(request.classifier):
            return self._chat.classify(request)
        spec, function = request.classifier, request.address
        with self._models.borrow(_key(spec, function), lambda: self._registry.load(spec, function)) as model:
            over = model.over(request.classes, request.label_map)
            # A function's address says already how it is asked to prepare them.
            prepared = request.prepared if function is None else None
            found = model.predict(request.images, prepared)
            outcomes = settle(
                [
                    (outcome, found.digests.get(image))
                    for image, outcome in zip(request.images, found.outcomes, strict=True)
                ],
                prepare=_arrays,
                run=_alone,
                finish=_predictor(over, request.features),
                batch=len(found.outcomes),
            )
            cost = Cost(seconds=time.monotonic() - started)
            return ClassifyResponse(outcomes=outcomes, model=model.identity, cost=cost)


def _key(spec: str, function: str | None) -> str:
    # Two programs may give their functions one name, which may be a name of the suite, too.
    return spec if function is None else f"{spec} at {function}"


Made = tuple[Arrays, str | None]
"""What a network answered to an image, and the digest of the image if it was made of a recipe."""


def _arrays(answered: tuple[Outcome[Arrays], str | None]) -> Made:
    outcome, digest = answered
    return outcome.unwrap(), digest


def _alone(answered: list[Made]) -> list[Arrays]:
    return [arrays for arrays, _ in answered]


def _predictor(over: OverClasses, with_features: bool) -> Callable[[Made, Arrays], Prediction]:
    def predict(made: Made, arrays: Arrays) -> Prediction:
        features = arrays.get("features", arrays.get("vector")) if with_features else None
        return prediction(over(arrays), features=features, pixels=made[1])

    return predict
