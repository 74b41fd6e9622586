"""The suite's classifiers that chat, by name: described, asked, and their order effect measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from threading import Lock

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.classifiers import (
    ClassifierDescription,
    ClassifyRequest,
    ClassifyResponse,
    Prediction,
)
from counterpose_core.errors import UnknownModel
from counterpose_core.suite_chats import CHAT, ChatSuite
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.types import Cost
from counterpose_services.classifiers.chat.chat_classifier import ChatClassifier
from counterpose_services.classifiers.prediction import prediction
from counterpose_services.classifiers.preparations import refuse_alternative
from counterpose_services.openai_api.connect import listed_server
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.openai_api.terms import language_terms
from counterpose_services.settings import ServiceSettings

Connect = Callable[[str], OpenAIServer]
"""Returns the client of a server by its address; raises UnknownModel if its host is not listed."""


class ChatClassifiers:
    """Those of a suite; each server is connected to at its first question."""

    def __init__(self, suites: Mapping[str, ChatSuite], connect: Connect, store: BlobStore) -> None:
        # One client of each server, whose limit of requests at once holds for all questions.
        connected = cache(connect)
        self._suites, self._loading = suites, Lock()
        self._loaded = cache(
            lambda name: ChatClassifier(connected(suites[name].server), suites[name], name, store)
        )

    @classmethod
    def load(
        cls, suites: Mapping[str, ChatSuite], settings: ServiceSettings, store: BlobStore
    ) -> ChatClassifiers:
        """Return those whose servers the settings permit."""
        terms = language_terms(settings)
        return cls(suites, lambda url: listed_server(url, terms), store)

    def describe(self) -> list[ClassifierDescription]:
        """Return a description of each; nothing is asked."""
        return [self.describe_one(f"{CHAT}{name}") for name in self._suites]

    def describe_one(self, spec: str) -> ClassifierDescription:
        """Return the description of one; raises UnknownModel if the suite has none of this name."""
        suite = self._suite(spec)
        return ClassifierDescription(
            name=spec, spec=spec, architecture=suite.model, description=suite.question
        )

    def of(self, spec: str) -> ChatClassifier:
        """Return the classifier of such a name; raises UnknownModel if the suite has none, or may not ask."""
        self._suite(spec)
        with self._loading:
            return self._loaded(spec.removeprefix(CHAT))

    def _suite(self, spec: str) -> ChatSuite:
        name = spec.removeprefix(CHAT)
        if (suite := self._suites.get(name)) is None:
            near = did_you_mean(name, list(self._suites))
            raise UnknownModel(
                f"the suite has no question {name!r}{near}; it has {', '.join(self._suites) or 'none'}, each "
                "in a section [chat.<name>] of its file"
            )
        return suite

    def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Ask about each image; raises as `of` and `ChatClassifier.question` do."""
        started = time.monotonic()
        refuse_alternative(request.prepared, request.classifier)
        classifier = self.of(request.classifier)
        question = classifier.question(request.classes)
        outcomes, digests = classifier.ask(request.images, question)
        return ClassifyResponse(
            outcomes=[
                Outcome[Prediction](problem=each.problem)
                if each.value is None
                else Outcome[Prediction](value=prediction(each.value, pixels=digests.get(image)))
                for image, each in zip(request.images, outcomes, strict=True)
            ],
            model=ModelIdentity(id=request.classifier, revision=question.digest),
            cost=Cost(seconds=time.monotonic() - started),
        )
