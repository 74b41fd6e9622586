"""The ports over HTTP: each service behind its Protocol, its answers counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import httpx

from faultline_core.contract.base import ServiceHealth
from faultline_core.contract.captioner import (
    CaptionRequest,
    CaptionResponse,
    LogLikelihoodRequest,
    LogLikelihoodResponse,
)
from faultline_core.contract.classifiers import ClassifierList, ClassifyRequest, ClassifyResponse
from faultline_core.contract.editor import (
    EditRequest,
    EditResponse,
    GenerateRequest,
    GenerateResponse,
    ReconstructRequest,
    ReconstructResponse,
)
from faultline_core.contract.perturber import PerturbRequest, PerturbResponse
from faultline_core.contract.scorer import (
    EmbedImagesRequest,
    EmbedResponse,
    EmbedTextsRequest,
    FillMaskRequest,
    FillMaskResponse,
    ScoreRequest,
    ScoreResponse,
)
from faultline_core.errors import BadBackendOutput, FaultlineError
from faultline_gateway.ports import Services
from faultline_gateway.service_calls import ServiceCaller
from faultline_gateway.settings import GatewaySettings

SERVICE_NAMES = ("captioner", "perturber", "editor", "scorer", "classifiers")
HEALTH_SECONDS = 3.0
MAX_CONNECTIONS = 100


class _Batch(Protocol):
    @property
    def outcomes(self) -> Sequence[object]: ...


B = TypeVar("B", bound=_Batch)


def counted(service: str, answer: B, asked: Sequence[object]) -> B:
    """Return ``answer`` when it has one outcome for each thing asked.

    Raises:
        BadBackendOutput: it has more or fewer.
    """
    if len(answer.outcomes) != len(asked):
        raise BadBackendOutput(
            f"the {service} answered {len(answer.outcomes)} outcomes for {len(asked)} items"
        )
    return answer


class HttpCaptioner:
    """The captioner over HTTP."""

    def __init__(self, caller: ServiceCaller) -> None:
        self._caller = caller

    async def caption(self, request: CaptionRequest) -> CaptionResponse:
        """Caption each picture."""
        answer = await self._caller.post("captioner", "/v1/caption", request, CaptionResponse)
        return counted("captioner", answer, request.items)

    async def log_likelihood(self, request: LogLikelihoodRequest) -> LogLikelihoodResponse:
        """Weigh each text given its picture."""
        answer = await self._caller.post("captioner", "/v1/log-likelihood", request, LogLikelihoodResponse)
        return counted("captioner", answer, request.items)


class HttpPerturber:
    """The perturber over HTTP."""

    def __init__(self, caller: ServiceCaller) -> None:
        self._caller = caller

    async def perturb(self, request: PerturbRequest) -> PerturbResponse:
        """Propose edits of each caption."""
        answer = await self._caller.post("perturber", "/v1/perturb", request, PerturbResponse)
        return counted("perturber", answer, request.items)


class HttpEditor:
    """The editor over HTTP."""

    def __init__(self, caller: ServiceCaller) -> None:
        self._caller = caller

    async def reconstruct(self, request: ReconstructRequest) -> ReconstructResponse:
        """Invert each picture and bring it back."""
        answer = await self._caller.post("editor", "/v1/reconstruct", request, ReconstructResponse)
        return counted("editor", answer, request.items)

    async def edit(self, request: EditRequest) -> EditResponse:
        """Edit each picture at every value of the sweep."""
        answer = await self._caller.post("editor", "/v1/edit", request, EditResponse)
        return counted("editor", answer, request.items)

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Make one picture a prompt and seed."""
        answer = await self._caller.post("editor", "/v1/generate", request, GenerateResponse)
        return counted("editor", answer, request.items)


class HttpScorer:
    """The scorer over HTTP."""

    def __init__(self, caller: ServiceCaller) -> None:
        self._caller = caller

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        """Measure each edit."""
        answer = await self._caller.post("scorer", "/v1/score", request, ScoreResponse)
        return counted("scorer", answer, request.items)

    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        """Embed each picture."""
        answer = await self._caller.post("scorer", "/v1/embed-images", request, EmbedResponse)
        return counted("scorer", answer, request.images)

    async def embed_texts(self, request: EmbedTextsRequest) -> EmbedResponse:
        """Embed each text."""
        answer = await self._caller.post("scorer", "/v1/embed-texts", request, EmbedResponse)
        return counted("scorer", answer, request.texts)

    async def fill_mask(self, request: FillMaskRequest) -> FillMaskResponse:
        """Replace one word of each text."""
        answer = await self._caller.post("scorer", "/v1/fill-mask", request, FillMaskResponse)
        return counted("scorer", answer, request.items)


class HttpClassifiers:
    """The classifiers over HTTP."""

    def __init__(self, caller: ServiceCaller) -> None:
        self._caller = caller

    async def classify(self, request: ClassifyRequest) -> ClassifyResponse:
        """Predict each picture."""
        answer = await self._caller.post("classifiers", "/v1/classify", request, ClassifyResponse)
        return counted("classifiers", answer, request.images)

    async def list_classifiers(self) -> ClassifierList:
        """Name the classifiers that can be tested."""
        return await self._caller.get("classifiers", "/v1/classifiers", ClassifierList)


class HttpHealth:
    """Asks each service how it is; what cannot be reached is not ready, and says why."""

    def __init__(self, caller: ServiceCaller) -> None:
        self._caller = caller

    async def services(self) -> list[ServiceHealth]:
        """Return the five services' states, asked all at once."""
        return list(await asyncio.gather(*(self._service(name) for name in SERVICE_NAMES)))

    async def _service(self, name: str) -> ServiceHealth:
        try:
            return await self._caller.get(name, "/healthz", ServiceHealth, seconds=HEALTH_SECONDS)
        except FaultlineError as error:
            return ServiceHealth(service=name, ready=False, detail=error.detail)


def services_of(caller: ServiceCaller) -> Services:
    """Put all five ports over one caller."""
    return Services(
        captioner=HttpCaptioner(caller),
        perturber=HttpPerturber(caller),
        editor=HttpEditor(caller),
        scorer=HttpScorer(caller),
        classifiers=HttpClassifiers(caller),
    )


@asynccontextmanager
async def calling_services(settings: GatewaySettings) -> AsyncIterator[ServiceCaller]:
    """Hold a pool of connections to the services; proxy variables are ignored, the secret must not leave."""
    limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS)
    async with httpx.AsyncClient(limits=limits, trust_env=False) as http:
        yield ServiceCaller(http, settings)
