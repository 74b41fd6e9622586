"""The ports over HTTP: each service behind its Protocol, its answers counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar, get_args

import httpx
from pydantic import BaseModel

from counterpose_core.contract import (
    captioner,
    classifiers,
    editor,
    judges,
    perturber,
    preservation,
    scorer,
    tokens,
)
from counterpose_core.contract.base import BatchResponse, ServiceHealth
from counterpose_core.contract.order_effects import OrderEffect, OrderEffectRequest
from counterpose_core.contract.services import CircuitState, ServiceState
from counterpose_core.errors import BadBackendOutput, CounterposeError, DeadlineExceeded
from counterpose_core.tracing import Tracing
from counterpose_core.types import ServiceName
from counterpose_gateway.services.accounts import Accounted
from counterpose_gateway.services.caller import ServiceCaller
from counterpose_gateway.services.ports import Services
from counterpose_gateway.settings import GatewaySettings

SERVICE_NAMES: tuple[ServiceName, ...] = get_args(ServiceName)
HEALTH_SECONDS = 3.0
MAX_CONNECTIONS = 512
"""More than a worker's item groups, with 60 classifiers each, and the routes' threads call at once."""


B = TypeVar("B", bound=BatchResponse[Any])


def counted(service: str, answer: B, asked: Sequence[object]) -> B:
    """Return ``answer`` if it has one outcome for each item of the request; nothing else counts them.

    Raises:
        BadBackendOutput: it has more or fewer.
    """
    if len(answer.outcomes) != len(asked):
        raise BadBackendOutput(
            f"the {service} answered {len(answer.outcomes)} outcomes for {len(asked)} items; "
            "check that it runs the gateway's version"
        )
    return answer


class _Port:
    """A service behind a caller; ``service`` is its name."""

    service: ClassVar[ServiceName]

    def __init__(self, caller: ServiceCaller) -> None:
        self._caller = caller

    async def _ask(self, path: str, request: BaseModel, asked: Sequence[object], answer: type[B]) -> B:
        return counted(self.service, await self._caller.post(self.service, path, request, answer), asked)


class HttpCaptioner(_Port):
    """The captioner over HTTP."""

    service = "captioner"

    async def caption(self, request: captioner.CaptionRequest) -> captioner.CaptionResponse:
        """Caption each image."""
        return await self._ask("/v1/caption", request, request.items, captioner.CaptionResponse)

    async def log_likelihood(
        self, request: captioner.LogLikelihoodRequest
    ) -> captioner.LogLikelihoodResponse:
        """Return the likelihood of each text given its image."""
        return await self._ask("/v1/log-likelihood", request, request.items, captioner.LogLikelihoodResponse)


class HttpPerturber(_Port):
    """The perturber over HTTP."""

    service = "perturber"

    async def perturb(self, request: perturber.PerturbRequest) -> perturber.PerturbResponse:
        """Propose edits of each caption."""
        return await self._ask("/v1/perturb", request, request.items, perturber.PerturbResponse)

    async def likelihoods(self, request: perturber.LikelihoodsRequest) -> perturber.LikelihoodsResponse:
        """Return the likelihood of each text under the language model alone."""
        return await self._ask("/v1/likelihoods", request, request.texts, perturber.LikelihoodsResponse)


class HttpEditor(_Port):
    """The editor over HTTP."""

    service = "editor"

    async def reconstruct(self, request: editor.ReconstructRequest) -> editor.ReconstructResponse:
        """Invert and reconstruct each image."""
        return await self._ask("/v1/reconstruct", request, request.items, editor.ReconstructResponse)

    async def edit(self, request: editor.EditRequest) -> editor.EditResponse:
        """Edit each image at every value of the sweep."""
        return await self._ask("/v1/edit", request, request.items, editor.EditResponse)

    async def generate(self, request: editor.GenerateRequest) -> editor.GenerateResponse:
        """Make one image for each prompt and seed."""
        return await self._ask("/v1/generate", request, request.items, editor.GenerateResponse)

    async def learn_tokens(self, request: tokens.LearnTokensRequest) -> tokens.LearnTokensResponse:
        """Learn each class's token one link further."""
        return await self._ask("/v1/learn-tokens", request, request.items, tokens.LearnTokensResponse)


class HttpScorer(_Port):
    """The scorer over HTTP."""

    service = "scorer"

    async def score(self, request: scorer.ScoreRequest) -> scorer.ScoreResponse:
        """Measure each edit."""
        return await self._ask("/v1/score", request, request.items, scorer.ScoreResponse)

    async def embed_images(self, request: scorer.EmbedImagesRequest) -> scorer.EmbedResponse:
        """Embed each image."""
        return await self._ask("/v1/embed-images", request, request.images, scorer.EmbedResponse)

    async def embed_texts(self, request: scorer.EmbedTextsRequest) -> scorer.EmbedResponse:
        """Embed each text."""
        return await self._ask("/v1/embed-texts", request, request.texts, scorer.EmbedResponse)

    async def fill_mask(self, request: scorer.FillMaskRequest) -> scorer.FillMaskResponse:
        """Replace one word of each text."""
        return await self._ask("/v1/fill-mask", request, request.items, scorer.FillMaskResponse)

    async def preservation(
        self, request: preservation.PreservationRequest
    ) -> preservation.PreservationResponse:
        """Measure what each edit changed beside what was asked for."""
        return await self._ask("/v1/preservation", request, request.items, preservation.PreservationResponse)

    async def judge(self, request: judges.JudgeRequest) -> judges.JudgeResponse:
        """Have one of the suite's judges judge each edit."""
        return await self._ask("/v1/judge", request, request.items, judges.JudgeResponse)

    async def segment(self, request: scorer.SegmentRequest) -> scorer.SegmentResponse:
        """Outline the object of each image."""
        return await self._ask("/v1/segment", request, request.items, scorer.SegmentResponse)


class HttpClassifiers(_Port):
    """The classifiers over HTTP."""

    service = "classifiers"

    async def classify(self, request: classifiers.ClassifyRequest) -> classifiers.ClassifyResponse:
        """Predict each image."""
        return await self._ask("/v1/classify", request, request.images, classifiers.ClassifyResponse)

    async def describe(self, request: classifiers.DescribeRequest) -> classifiers.ClassifierDescription:
        """Describe a classifier, whether listed or not."""
        return await self._caller.post(
            "classifiers", "/v1/describe", request, classifiers.ClassifierDescription
        )

    async def order_effect(self, request: OrderEffectRequest) -> OrderEffect:
        """Measure what the order of the labels does to a model that chats."""
        return await self._caller.post("classifiers", "/v1/order-effect", request, OrderEffect)

    async def list_classifiers(self) -> classifiers.ClassifierList:
        """Name the classifiers that can be tested."""
        return await self._caller.get("classifiers", "/v1/classifiers", classifiers.ClassifierList)


class HttpHealth:
    """Asks each service for its state; an unreachable service is not ready, with the reason."""

    def __init__(self, caller: ServiceCaller, in_suite: Collection[str] = SERVICE_NAMES) -> None:
        self._caller, self._in_suite = caller, in_suite

    async def services(self) -> list[ServiceState]:
        """Return the five services' states; those of the suite are asked all at once."""
        return list(await asyncio.gather(*(self._service(name) for name in SERVICE_NAMES)))

    def circuits(self) -> Mapping[str, CircuitState]:
        """Return whether this process still calls each service, asking none."""
        uncalled: dict[str, CircuitState] = dict.fromkeys(SERVICE_NAMES, "closed")
        return uncalled | dict(self._caller.circuits())

    async def _service(self, name: str) -> ServiceState:
        if name not in self._in_suite:
            return ServiceState(service=name, ready=False, in_suite=False, detail="not in this suite")
        # Asked even while the circuit is open: the caller wants the current state of the service.
        try:
            found = await self._caller.get(name, "/healthz", ServiceHealth, seconds=HEALTH_SECONDS)
        except DeadlineExceeded:
            late = f"no answer within {HEALTH_SECONDS:g} s: it starts, or is busy"
            found = ServiceHealth(service=name, ready=False, detail=late)
        except CounterposeError as error:
            found = ServiceHealth(service=name, ready=False, detail=error.detail)
        else:
            self._caller.limit(name).tell(found.calls)
        return ServiceState(circuit=self.circuits()[name], **found.model_dump())


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
async def calling_services(
    settings: GatewaySettings,
    tracing: Tracing | None = None,
    *,
    absent_seconds: float | None = None,
    accounted: Accounted | None = None,
) -> AsyncIterator[ServiceCaller]:
    """Hold a pool of connections to the services, without proxies: the secret must not leave the cluster.

    ``absent_seconds`` and ``accounted`` as in `ServiceCaller`.
    """
    limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS)
    async with httpx.AsyncClient(limits=limits, trust_env=False) as http:
        yield ServiceCaller(
            http, settings, tracing=tracing, absent_seconds=absent_seconds, accounted=accounted
        )
