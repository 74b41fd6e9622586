"""A service that the launcher started: the requests of `counterpose-services check --load`, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import httpx
from pydantic import BaseModel

from counterpose_core.contract import captioner, classifiers, editor, perturber, scorer
from counterpose_core.contract.base import SECRET_HEADER, ModelIdentity, ServiceHealth
from counterpose_core.types import Cost

Answer = TypeVar("Answer", bound=BaseModel)


class ServedService:
    """Has the methods of the engines that a trial calls; ``costs`` are those of the answers.

    Args:
        url: the service's address.
        secret: the shared secret.
        timeout_s: seconds that an answer may take.
    """

    def __init__(self, url: str, secret: str, timeout_s: float) -> None:
        self._client = httpx.Client(
            base_url=url, headers={SECRET_HEADER: secret}, timeout=timeout_s, trust_env=False
        )
        self.costs: list[Cost] = []

    def __enter__(self) -> ServedService:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    @property
    def identity(self) -> ModelIdentity | None:
        """The weights that answer, if they are one model's."""
        answer = self._client.get("/healthz").raise_for_status()
        return ServiceHealth.model_validate_json(answer.content).model

    def caption(self, request: captioner.CaptionRequest) -> captioner.CaptionResponse:
        """Caption images."""
        return self._post("/v1/caption", request, captioner.CaptionResponse)

    def perturb(self, request: perturber.PerturbRequest) -> perturber.PerturbResponse:
        """Propose edits of captions."""
        return self._post("/v1/perturb", request, perturber.PerturbResponse)

    def likelihoods(self, request: perturber.LikelihoodsRequest) -> perturber.LikelihoodsResponse:
        """Return likelihoods of texts."""
        return self._post("/v1/likelihoods", request, perturber.LikelihoodsResponse)

    def edit(self, request: editor.EditRequest, *, cancelled: Callable[[], bool]) -> editor.EditResponse:
        """Edit images; nothing cancels the call."""
        return self._post("/v1/edit", request, editor.EditResponse)

    def score(self, request: scorer.ScoreRequest) -> scorer.ScoreResponse:
        """Measure edits."""
        return self._post("/v1/score", request, scorer.ScoreResponse)

    def embed_texts(self, request: scorer.EmbedTextsRequest) -> scorer.EmbedResponse:
        """Embed texts."""
        return self._post("/v1/embed-texts", request, scorer.EmbedResponse)

    def fill_mask(self, request: scorer.FillMaskRequest) -> scorer.FillMaskResponse:
        """Replace words."""
        return self._post("/v1/fill-mask", request, scorer.FillMaskResponse)

    def describe(self, request: classifiers.DescribeRequest) -> classifiers.ClassifierDescription:
        """Describe a classifier."""
        return self._post("/v1/describe", request, classifiers.ClassifierDescription)

    def classify(self, request: classifiers.ClassifyRequest) -> classifiers.ClassifyResponse:
        """Classify images."""
        return self._post("/v1/classify", request, classifiers.ClassifyResponse)

    def _post(self, path: str, request: BaseModel, answer: type[Answer]) -> Answer:
        told = self._client.post(
            path, content=request.model_dump_json(), headers={"content-type": "application/json"}
        )
        if told.status_code != httpx.codes.OK:
            raise RuntimeError(f"{path} answered {told.status_code}: {told.text[:500]}")
        read = answer.model_validate_json(told.content)
        cost = getattr(read, "cost", None)
        self.costs += [cost] if isinstance(cost, Cost) else []
        return read
