"""The classifiers as a Serve application."""

# Annotations are not postponed: Serve passes the settings to `build` only if the annotation is a class.

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from ray.serve import Application

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import classifiers as contract
from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest
from counterpose_core.contract.recipes import ImageRef
from counterpose_core.suite import load_suite
from counterpose_core.suite_chats import chats
from counterpose_services.batching.engine_thread import EngineThread
from counterpose_services.batching.merged_calls import MergedCalls
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.serving.engine_protocols import Classifiers
from counterpose_services.serving.engine_service import EngineService, application
from counterpose_services.settings import ServiceSettings


class Sharing(NamedTuple):
    """Calls share a batch if they ask the same classifier the same question.

    ``question`` is the body without its images, as JSON: no field of it can be forgotten.
    """

    classifier: str
    address: str | None
    question: str


class ClassifiersDeployment(EngineService[Classifiers]):
    """Serves a ClassifiersEngine; concurrent calls of one classifier share a batch."""

    name = "classifiers"
    # A group asks all its classifiers at once, and each network is loaded for all calls that wait for it.
    calls = 128

    @staticmethod
    def load(settings: ServiceSettings) -> Classifiers:
        """Load the suite's classifiers; each reads its weights on first use."""
        from counterpose_services.classifiers.chat.chat_classifiers import ChatClassifiers
        from counterpose_services.classifiers.engine import ClassifiersEngine

        suite, store = load_suite(settings.suite, settings), BlobStore(settings.store_url)
        given = ClassifierOptions.model_validate(settings, from_attributes=True)
        options = given.model_copy(update={"device": settings.of("classifiers").device})
        chat = ChatClassifiers.load(suite.chat, settings, store)
        return ClassifiersEngine.load(suite.classifiers, settings.suite_root, store, options, chat=chat)

    @cached_property
    def _predictions(self) -> MergedCalls[Sharing, ImageRef, contract.ClassifyResponse]:
        # Of a zoo larger than the cache, each network is loaded once for all images that wait for it.
        return self.merged(self._classify, lambda key: self.engine.is_loaded(key.classifier, key.address))

    @cached_property
    def _waiting(self) -> EngineThread:
        # Calls that wait for a server keep no network from its work.
        return EngineThread(
            hung_after_s=self.settings.request_timeout_s, calls=self.settings.openai_in_flight
        )

    def _classify(self, key: Sharing, images: list[ImageRef]) -> contract.ClassifyResponse:
        asked = json.loads(key.question) | {"images": images}
        return self.engine.classify(contract.ClassifyRequest.model_validate(asked))

    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return the verbs of ``counterpose_core.contract.classifiers``."""
        return {
            "/v1/classify": self.classify,
            "/v1/describe": self.describe,
            "/v1/order-effect": self.order_effect,
        }

    def gets(self) -> Mapping[str, Callable[[], Awaitable[Any]]]:
        """Return the lists of ``counterpose_core.contract.classifiers``."""
        return {"/v1/classifiers": self.list_classifiers}

    async def classify(self, body: contract.ClassifyRequest) -> contract.ClassifyResponse:
        """Predict each image."""
        if chats(body.classifier):
            # Not merged with other runs': what it asks for is this call's.
            return await self._waiting.run(self.engine.classify, body)
        question = body.model_dump_json(exclude={"images"})
        key = Sharing(body.classifier, body.address, question)
        return await self._predictions(key, body.images)

    async def describe(self, body: contract.DescribeRequest) -> contract.ClassifierDescription:
        """Describe a classifier."""
        return await self.thread.run(self.engine.describe, body)

    async def order_effect(self, body: OrderEffectRequest) -> OrderEffect:
        """Measure what the order of the labels does to a model that chats."""
        return await self._waiting.run(self.engine.order_effect, body)

    async def list_classifiers(self) -> contract.ClassifierList:
        """List the classifiers that can be tested."""
        return self.engine.list_classifiers()


def build(args: ServiceSettings) -> Application:
    """Return their application: ``serve run counterpose_services.classifiers.deployment:build``."""
    return application("classifiers", ClassifiersDeployment, args)
