"""The captioner behind the OpenAI API: a model that chats about images, asked for one caption at a time."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import MAX_BATCH, ModelIdentity
from counterpose_core.contract.captioner import (
    Caption,
    CaptionItem,
    CaptionRequest,
    CaptionResponse,
    LogLikelihood,
    LogLikelihoodItem,
    LogLikelihoodRequest,
    LogLikelihoodResponse,
)
from counterpose_core.errors import BadBackendOutput
from counterpose_core.images.codecs import decode_image
from counterpose_core.suite import CaptionerSuite
from counterpose_core.types import Cost
from counterpose_services.batching.outcomes import settle
from counterpose_services.captioner.shortening import shortened
from counterpose_services.captioner.wording import joined, prefix_for
from counterpose_services.openai_api.answers import Chat
from counterpose_services.openai_api.images import data_url
from counterpose_services.openai_api.prompt_odds import WITH_PROMPT, odds_after
from counterpose_services.openai_api.server import OpenAIServer

FINISHED = "stop"
TOKENS_A_WORD = 1.4
"""The server's tokenizer is not at hand; the editor's splits English captions into fewer tokens a word."""
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class _Sight:
    """An image as a data URL, and the words that its caption continues."""

    image: str
    prefix: str


class OpenAICaptioner:
    """Captions images greedily; every image is a request of its own."""

    def __init__(
        self, server: OpenAIServer, *, identity: ModelIdentity, suite: CaptionerSuite, store: BlobStore
    ) -> None:
        self._server, self._suite, self._store = server, suite, store
        self.identity = identity

    def caption(self, request: CaptionRequest) -> CaptionResponse:
        """Caption each image, going on from its prefix."""
        started = time.monotonic()

        def see(item: CaptionItem) -> _Sight:
            prefix = prefix_for(self._suite, item.label) if item.prefix is None else item.prefix
            return self._sight(item.image, prefix)

        outcomes = settle(
            request.items,
            prepare=see,
            run=partial(self._server.together, self._captioned),
            finish=lambda _, caption: caption,
            batch=MAX_BATCH,
        )
        return CaptionResponse(outcomes=outcomes, model=self.identity, cost=_since(started))

    def log_likelihood(self, request: LogLikelihoodRequest) -> LogLikelihoodResponse:
        """Return log p(text | image, prefix) of each item, in nats, summed over the text's tokens."""
        started = time.monotonic()

        def see(item: LogLikelihoodItem) -> tuple[_Sight, str]:
            return self._sight(item.image, item.prefix), item.text

        outcomes = settle(
            request.items,
            prepare=see,
            run=partial(self._server.together, self._weighed),
            finish=lambda _, likelihood: likelihood,
            batch=MAX_BATCH,
        )
        return LogLikelihoodResponse(outcomes=outcomes, model=self.identity, cost=_since(started))

    def _sight(self, image: str, prefix: str) -> _Sight:
        return _Sight(data_url(decode_image(self._store.get(image))), prefix)

    def _captioned(self, sight: _Sight) -> Caption:
        answer = self._asked(sight, sight.prefix, self._suite.max_tokens)
        text = (answer.only.message.content or "").strip()
        if not text:
            raise BadBackendOutput(f"{self._server.name!r} returned an empty caption for this image")
        kept = shortened(
            text,
            lambda beginning: self._fits(joined(sight.prefix, beginning)),
            complete=answer.only.finish_reason == FINISHED,
        )
        weighed = self._after(answer, self._asked(sight, joined(sight.prefix, kept), 1))
        return Caption(
            text=joined(sight.prefix, kept),
            log_likelihood=weighed.total,
            tokens=weighed.tokens,
            shortened=kept != text,
        )

    def _weighed(self, asked: tuple[_Sight, str]) -> LogLikelihood:
        sight, text = asked
        before = self._asked(sight, sight.prefix, 1)
        return self._after(before, self._asked(sight, joined(sight.prefix, text), 1))

    def _fits(self, text: str) -> bool:
        return len(_WORD.findall(text)) * TOKENS_A_WORD <= self._suite.text_limit

    def _asked(self, sight: _Sight, begun: str, most: int) -> Chat:
        """Ask for ``most`` tokens after an answer that has begun so."""
        asked: list[dict[str, Any]] = [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": sight.image}},
                    {"type": "text", "text": self._suite.instruction},
                ],
            }
        ]
        if begun:
            asked.append({"role": "assistant", "content": begun})
        # vLLM's: the last message is gone on from, and each token of the prompt comes with its likelihood.
        body: dict[str, Any] = {
            "model": self._suite.model,
            "messages": asked,
            "max_tokens": most,
            **WITH_PROMPT,
            "add_generation_prompt": not begun,
            "continue_final_message": bool(begun),
        }
        if most > 1:
            body["min_tokens"] = self._suite.min_tokens
            body["repetition_penalty"] = self._suite.repetition_penalty
        return self._server.chat(body)

    def _after(self, before: Chat, whole: Chat) -> LogLikelihood:
        """Return the likelihood of the tokens of a whole prompt after those that both share."""
        odds = odds_after(before, whole, self._server.name)
        return LogLikelihood(total=min(sum(odds), 0.0), tokens=len(odds))


def _since(started: float) -> Cost:
    return Cost(seconds=time.monotonic() - started)
