"""The perturber as a Serve application."""

# Annotations are not postponed: Serve passes the settings to `build` only if the annotation is a class.

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ray.serve import Application

from faultline_core.contract import perturber as contract
from faultline_core.errors import UnknownModel
from faultline_core.suite import load_suite
from faultline_services.serving.engine_protocols import Perturber
from faultline_services.serving.engine_service import EngineService, application
from faultline_services.settings import ServiceSettings


class PerturberDeployment(EngineService[Perturber]):
    """Serves a PerturberEngine."""

    name = "perturber"

    @staticmethod
    def load(settings: ServiceSettings) -> Perturber:
        """Load the suite's perturber."""
        from faultline_services.perturber.engine import PerturberEngine

        suite, own = load_suite(settings.suite), settings.of("perturber")
        if suite.perturber is None:
            raise UnknownModel(f"the suite {suite.name!r} has no perturber; choose a suite with one")
        return PerturberEngine.load(suite.perturber, settings.suite_root, device=own.device, dtype=own.dtype)

    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return the verbs of ``faultline_core.contract.perturber``."""
        return {"/v1/perturb": self.perturb, "/v1/likelihoods": self.likelihoods}

    async def perturb(self, body: contract.PerturbRequest) -> contract.PerturbResponse:
        """Propose edits of each caption."""
        return await self.thread.run(self.engine.perturb, body)

    async def likelihoods(self, body: contract.LikelihoodsRequest) -> contract.LikelihoodsResponse:
        """Return the likelihood of each text."""
        return await self.thread.run(self.engine.likelihoods, body)


def build(args: ServiceSettings) -> Application:
    """Return the perturber's application: ``serve run faultline_services.perturber.deployment:build``."""
    return application("perturber", PerturberDeployment, args)
