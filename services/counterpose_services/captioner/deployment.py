"""The captioner as a Serve application."""

# Annotations are not postponed: Serve passes the settings to `build` only if the annotation is a class.

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any

from ray.serve import Application

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import captioner as contract
from counterpose_core.suite import load_suite
from counterpose_services.batching.merged_calls import MergedCalls
from counterpose_services.serving.engine_protocols import Captioner
from counterpose_services.serving.engine_service import EngineService, application
from counterpose_services.settings import ServiceSettings


class CaptionerDeployment(EngineService[Captioner]):
    """Serves a CaptionerEngine; concurrent calls of one verb share a batch."""

    name = "captioner"

    @staticmethod
    def load(settings: ServiceSettings) -> Captioner:
        """Load the suite's captioner, or connect to its server."""
        from counterpose_services.captioner.engine import CaptionerEngine
        from counterpose_services.captioner.served import load_served

        suite, store = load_suite(settings.suite, settings).captioner, BlobStore(settings.store_url)
        if suite.engine != "transformers":
            return load_served(suite, settings, store)
        own = settings.of("captioner")
        return CaptionerEngine.load(suite, settings.suite_root, store, device=own.device, dtype=own.dtype)

    @classmethod
    def calls_at_once(cls, settings: ServiceSettings) -> int:
        """Return as many calls as a server may have requests; a model in the replica takes one at a time."""
        served = load_suite(settings.suite, settings).captioner.engine != "transformers"
        return settings.openai_in_flight if served else 1

    @cached_property
    def _merges(self) -> bool:
        # A server forms its own batches; calls that wait for each other would only wait.
        return self.calls_at_once(self.settings) == 1

    @cached_property
    def _captions(self) -> MergedCalls[None, contract.CaptionItem, contract.CaptionResponse]:
        return self.merged(lambda _, items: self.engine.caption(contract.CaptionRequest(items=items)))

    @cached_property
    def _weighed(self) -> MergedCalls[None, contract.LogLikelihoodItem, contract.LogLikelihoodResponse]:
        return self.merged(
            lambda _, items: self.engine.log_likelihood(contract.LogLikelihoodRequest(items=items))
        )

    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return the verbs of ``counterpose_core.contract.captioner``."""
        return {"/v1/caption": self.caption, "/v1/log-likelihood": self.log_likelihood}

    async def caption(self, body: contract.CaptionRequest) -> contract.CaptionResponse:
        """Caption each image."""
        if not self._merges:
            return await self.thread.run(self.engine.caption, body)
        return await self._captions(None, body.items)

    async def log_likelihood(self, body: contract.LogLikelihoodRequest) -> contract.LogLikelihoodResponse:
        """Return the likelihood of each text given its image."""
        if not self._merges:
            return await self.thread.run(self.engine.log_likelihood, body)
        return await self._weighed(None, body.items)


def build(args: ServiceSettings) -> Application:
    """Return the captioner's application: ``serve run counterpose_services.captioner.deployment:build``."""
    return application("captioner", CaptionerDeployment, args)
