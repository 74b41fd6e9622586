"""The perturber as a Serve application."""

# Annotations are not postponed: Serve passes the settings to `build` only if the annotation is a class.

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any

from ray.serve import Application

from counterpose_core.contract import perturber as contract
from counterpose_core.suite import PerturberSuite, load_suite
from counterpose_services.batching.merged_calls import MergedCalls
from counterpose_services.serving.engine_protocols import Perturber
from counterpose_services.serving.engine_service import EngineService, application
from counterpose_services.settings import ServiceSettings


class PerturberDeployment(EngineService[Perturber]):
    """Serves a PerturberEngine; concurrent calls of one verb share a batch, unless a server does."""

    name = "perturber"

    @staticmethod
    def load(settings: ServiceSettings) -> Perturber:
        """Load the suite's perturber, or connect to its server."""
        from counterpose_services.perturber.engine import PerturberEngine
        from counterpose_services.perturber.served import load_served

        suite, own = _perturber(settings), settings.of("perturber")
        if suite.engine != "transformers":
            return load_served(suite, settings)
        return PerturberEngine.load(suite, settings.suite_root, device=own.device, dtype=own.dtype)

    @classmethod
    def calls_at_once(cls, settings: ServiceSettings) -> int:
        """Return as many calls as a server may have requests; a model in the replica takes one at a time."""
        return 1 if _perturber(settings).engine == "transformers" else settings.openai_in_flight

    @cached_property
    def _merges(self) -> bool:
        # A server forms its own batches; calls that wait for each other would only wait.
        return self.calls_at_once(self.settings) == 1

    @cached_property
    def _edits(self) -> MergedCalls[None, contract.PerturbItem, contract.PerturbResponse]:
        return self.merged(lambda _, items: self.engine.perturb(contract.PerturbRequest(items=items)))

    @cached_property
    def _weighed(self) -> MergedCalls[None, str, contract.LikelihoodsResponse]:
        return self.merged(lambda _, texts: self.engine.likelihoods(contract.LikelihoodsRequest(texts=texts)))

    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return the verbs of ``counterpose_core.contract.perturber``."""
        return {"/v1/perturb": self.perturb, "/v1/likelihoods": self.likelihoods}

    async def perturb(self, body: contract.PerturbRequest) -> contract.PerturbResponse:
        """Propose edits of each caption."""
        if not self._merges:
            return await self.thread.run(self.engine.perturb, body)
        return await self._edits(None, body.items)

    async def likelihoods(self, body: contract.LikelihoodsRequest) -> contract.LikelihoodsResponse:
        """Return the likelihood of each text."""
        if not self._merges:
            return await self.thread.run(self.engine.likelihoods, body)
        return await self._weighed(None, body.texts)


def _perturber(settings: ServiceSettings) -> PerturberSuite:
    return load_suite(settings.suite, settings).perturber


def build(args: ServiceSettings) -> Application:
    """Return the perturber's application: ``serve run counterpose_services.perturber.deployment:build``."""
    return application("perturber", PerturberDeployment, args)
