"""The scorer as a Serve application."""

# Annotations are not postponed: Serve passes the settings to `build` only if the annotation is a class.

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any

from ray.serve import Application

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import scorer as contract
from counterpose_core.suite import load_suite
from counterpose_core.types import BlobRef
from counterpose_services.batching.merged_calls import MergedCalls
from counterpose_services.serving.engine_protocols import Scorer
from counterpose_services.serving.engine_service import EngineService, application
from counterpose_services.settings import ServiceSettings


class ScorerDeployment(EngineService[Scorer]):
    """Serves a ScorerEngine; scores and embeddings of concurrent calls share a batch."""

    name = "scorer"

    @staticmethod
    def load(settings: ServiceSettings) -> Scorer:
        """Load the suite's scorer."""
        from counterpose_services.scorer.engine import ScorerEngine

        suite, store = load_suite(settings.suite), BlobStore(settings.store_url)
        own = settings.of("scorer")
        return ScorerEngine.load(suite.scorer, settings.suite_root, store, device=own.device)

    @cached_property
    def _scores(self) -> MergedCalls[None, contract.ScoreItem, contract.EditScores]:
        return self.merged(lambda _, items: self.engine.score(contract.ScoreRequest(items=items)))

    @cached_property
    def _images(self) -> MergedCalls[None, BlobRef, contract.Embedding]:
        return self.merged(
            lambda _, images: self.engine.embed_images(contract.EmbedImagesRequest(images=images))
        )

    @cached_property
    def _texts(self) -> MergedCalls[contract.TextEncoder, str, contract.Embedding]:
        return self.merged(
            lambda kind, texts: self.engine.embed_texts(contract.EmbedTextsRequest(texts=texts, encoder=kind))
        )

    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return the verbs of ``counterpose_core.contract.scorer``."""
        return {
            "/v1/score": self.score,
            "/v1/embed-images": self.embed_images,
            "/v1/embed-texts": self.embed_texts,
            "/v1/fill-mask": self.fill_mask,
        }

    async def score(self, body: contract.ScoreRequest) -> contract.ScoreResponse:
        """Measure each edit."""
        part = await self._scores(None, body.items)
        return contract.ScoreResponse(outcomes=part.outcomes, model=part.model, cost=part.cost)

    async def embed_images(self, body: contract.EmbedImagesRequest) -> contract.EmbedResponse:
        """Embed each image."""
        part = await self._images(None, body.images)
        return contract.EmbedResponse(outcomes=part.outcomes, model=part.model, cost=part.cost)

    async def embed_texts(self, body: contract.EmbedTextsRequest) -> contract.EmbedResponse:
        """Embed each text."""
        part = await self._texts(body.encoder, body.texts)
        return contract.EmbedResponse(outcomes=part.outcomes, model=part.model, cost=part.cost)

    async def fill_mask(self, body: contract.FillMaskRequest) -> contract.FillMaskResponse:
        """Replace one word of each text."""
        return await self.thread.run(self.engine.fill_mask, body)


def build(args: ServiceSettings) -> Application:
    """Return the scorer's application: ``serve run counterpose_services.scorer.deployment:build``."""
    return application("scorer", ScorerDeployment, args)
