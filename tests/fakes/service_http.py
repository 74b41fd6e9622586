"""The five services as an HTTP transport: the fake ports behind their real addresses, honest or lying."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import httpx
from pydantic import BaseModel

from counterpose_core.contract import captioner, classifiers, editor, judges, perturber, preservation, scorer
from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, Problem
from counterpose_core.contract.order_effects import OrderEffectRequest
from counterpose_core.errors import CounterposeError
from counterpose_gateway.services.accounts import Accounted
from counterpose_gateway.services.caller import ServiceCaller
from counterpose_gateway.services.ports import Services
from counterpose_gateway.settings import GatewaySettings

Handler = (
    Callable[[httpx.Request], httpx.Response]
    | Callable[[httpx.Request], Coroutine[None, None, httpx.Response]]
)
Lie = Callable[[bytes], httpx.Response]
"""The bytes that replace a good answer's bytes."""


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let the given number of seconds pass at once."""
        self.pauses.append(seconds)
        self.now += seconds


def caller_over(
    handler: Handler,
    time: Time | None = None,
    *,
    absent_seconds: float | None = None,
    accounted: Accounted | None = None,
    **settings: Any,
) -> ServiceCaller:
    """A caller whose requests ``handler`` answers, with a minute's patience on its own clock."""
    time = time or Time()
    options = {"secret": "a-secret-of-some-length", "patience_seconds": 60.0} | settings
    return ServiceCaller(
        httpx.AsyncClient(transport=httpx.MockTransport(handler)), GatewaySettings.model_validate(options),
        sleep=time.sleep, clock=time, jitter=random.Random(0), absent_seconds=absent_seconds,
        accounted=accounted,
    )  # fmt: skip


def answering(*answers: httpx.Response | Exception) -> tuple[Handler, list[httpx.Request]]:
    """Return the answers one by one, and repeat the last."""
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        answer = answers[min(len(seen), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return handle, seen


def refusal(error: CounterposeError) -> httpx.Response:
    """The problem document of an error."""
    content = Problem.of(error).model_dump_json()
    return httpx.Response(error.status, content=content, headers={"content-type": PROBLEM_MEDIA_TYPE})


def served(services: Services, lies: Mapping[str, Lie] | None = None) -> Handler:
    """Answer each address from its fake port; a lie in ``lies`` changes the answer first."""
    known = routes(services)

    async def handle(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/classifiers/v1/classifiers":
            answer: BaseModel = await services.classifiers.list_classifiers()
        else:
            body, method = known[path]
            try:
                answer = await method(body.model_validate_json(request.content))
            except CounterposeError as error:
                return refusal(error)
        content = answer.model_dump_json().encode()
        lie = (lies or {}).get(path)
        return httpx.Response(200, content=content) if lie is None else lie(content)

    return handle


def routes(services: Services) -> dict[str, tuple[type[BaseModel], Callable[[Any], Awaitable[BaseModel]]]]:
    """The body and the port of each address that is posted to."""
    return {
        "/captioner/v1/caption": (captioner.CaptionRequest, services.captioner.caption),
        "/captioner/v1/log-likelihood": (captioner.LogLikelihoodRequest, services.captioner.log_likelihood),
        "/perturber/v1/perturb": (perturber.PerturbRequest, services.perturber.perturb),
        "/perturber/v1/likelihoods": (perturber.LikelihoodsRequest, services.perturber.likelihoods),
        "/editor/v1/reconstruct": (editor.ReconstructRequest, services.editor.reconstruct),
        "/editor/v1/generate": (editor.GenerateRequest, services.editor.generate),
        "/editor/v1/edit": (editor.EditRequest, services.editor.edit),
        "/scorer/v1/score": (scorer.ScoreRequest, services.scorer.score),
        "/scorer/v1/fill-mask": (scorer.FillMaskRequest, services.scorer.fill_mask),
        "/scorer/v1/preservation": (preservation.PreservationRequest, services.scorer.preservation),
        "/scorer/v1/judge": (judges.JudgeRequest, services.scorer.judge),
        "/scorer/v1/segment": (scorer.SegmentRequest, services.scorer.segment),
        "/scorer/v1/embed-images": (scorer.EmbedImagesRequest, services.scorer.embed_images),
        "/scorer/v1/embed-texts": (scorer.EmbedTextsRequest, services.scorer.embed_texts),
        "/classifiers/v1/describe": (classifiers.DescribeRequest, services.classifiers.describe),
        "/classifiers/v1/classify": (classifiers.ClassifyRequest, services.classifiers.classify),
        "/classifiers/v1/order-effect": (OrderEffectRequest, services.classifiers.order_effect),
    }
