"""A language model behind the OpenAI API: prompts and answers over HTTP, many at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from counterpose_core.contract.base import MAX_BATCH, ModelIdentity, Outcome
from counterpose_core.contract.perturber import TextLikelihood
from counterpose_core.errors import BadBackendOutput, CounterposeError, InvalidRequest
from counterpose_services.batching.outcomes import settle
from counterpose_services.openai_api.answers import CompletionChoice
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.perturber.language_model import (
    Messages,
    Prompt,
    Row,
    Sampling,
    Written,
    text_likelihood,
)

FINISHED = "stop"
MOST_CAPTIONS = 16
# What tokenizers of common models read as more than text; without the vocabulary there is no exact list.
_MARKS = re.compile(r"<\|[^|]*\|>|</?s>|<(?:unk|pad|bos|eos|start_of_turn|end_of_turn)>|\[/?INST\]|<</?SYS>>")


class Reader(Protocol):
    """The vocabulary of the server's model, where its folder is at hand."""

    def prompt(self, asked: str | Messages, caption: str) -> list[int]: ...

    def require_plain(self, caption: str) -> None: ...

    def text(self, text: str) -> list[int]: ...

    def read(self, ids: Sequence[int]) -> str: ...

    def knows(self, ids: Sequence[int]) -> bool: ...


class _Captions(BaseModel, extra="forbid", frozen=True):
    captions: list[str]


CAPTIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "captions": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MOST_CAPTIONS}
    },
    "required": ["captions"],
    "additionalProperties": False,
}
_FORM = {
    "type": "json_schema",
    "json_schema": {"name": "captions", "strict": True, "schema": CAPTIONS_SCHEMA},
}


class OpenAIModel:
    """A model at a server; requests go out together, and answers depend on each one's seed.

    A prompt of text or token ids is completed; messages are answered under a JSON schema. ``names`` are the
    server's for the model with its adapter and for the base.
    """

    def __init__(
        self,
        server: OpenAIServer,
        *,
        names: tuple[str, str],
        identities: tuple[ModelIdentity, ModelIdentity],
        sampling: Sampling,
        reader: Reader | None = None,
    ) -> None:
        self._server, self._reader = server, reader
        self._adapted, self._base = names
        self.identity, self.base_identity = identities
        self._sampling = sampling

    def prompt(self, asked: str | Messages, caption: str) -> Prompt:
        """Return a prompt about ``caption`` as token ids, or as it is where the server reads it.

        Raises:
            InvalidRequest: the caption has a word outside the vocabulary, or a mark that a model may obey.
            PromptTooLong: the prompt leaves no room for an answer.
        """
        if self._reader is None:
            if (found := _MARKS.search(caption)) is not None:
                raise InvalidRequest(
                    f"the caption {caption[:80]!r} contains {found[0]!r}, which a language model may take "
                    "for a mark; remove it"
                )
            return asked
        if isinstance(asked, str):
            return self._reader.prompt(asked, caption)
        # The server fills its template by itself; only the caption must be plain.
        self._reader.require_plain(caption)
        return asked

    def write(self, rows: Sequence[Row]) -> list[Written | CounterposeError]:
        """Answer each row's prompt, or say why this one cannot be answered; raises as `together` does."""
        return self._server.together(self._written, rows)

    def weigh(self, texts: Sequence[str]) -> list[Outcome[TextLikelihood]]:
        """Return log p of each text under the base alone, in nats, summed over the text's tokens.

        Without the vocabulary, the server's first token is given and not counted: its start token, if its
        model has one.
        """

        def read(text: str) -> str | list[int]:
            return text if self._reader is None else self._reader.text(text)

        return settle(
            texts,
            prepare=read,
            run=partial(self._server.together, self._weighed),
            finish=lambda _, likelihood: likelihood,
            batch=MAX_BATCH,
        )

    def _written(self, row: Row) -> Written:
        return self._chatted(row) if isinstance(row.prompt, tuple) else self._completed(row)

    def _completed(self, row: Row) -> Written:
        body = {"model": self._adapted, "prompt": row.prompt, **self._settings(row)}
        if self._reader is not None:
            # vLLM's: without ids, a word outside the vocabulary would leave no trace in the text.
            body["return_token_ids"] = True
        answer = self._server.completion(body).only
        finished = answer.finish_reason == FINISHED
        if self._reader is None or answer.token_ids is None:
            return Written(answer.text, finished)
        return Written(
            self._reader.read(answer.token_ids), finished, readable=self._reader.knows(answer.token_ids)
        )

    def _chatted(self, row: Row) -> Written:
        body = {
            "model": self._adapted,
            "messages": row.prompt,
            "response_format": _FORM,
            **self._settings(row),
        }
        answer = self._server.chat(body).only
        text, finished = answer.message.content or "", answer.finish_reason == FINISHED
        try:
            return Written(text, finished, captions=tuple(_Captions.model_validate_json(text).captions))
        except ValidationError as error:
            if not finished:
                # It was cut at the limit of tokens: no caption of it is whole for certain.
                return Written(text, finished, captions=())
            raise BadBackendOutput(
                f"{self._server.name!r} did not keep the response format: {text[:200]!r}; take a server that "
                "binds answers to a JSON schema, or the prompt 'instruction'"
            ) from error

    def _settings(self, row: Row) -> dict[str, Any]:
        chosen = self._sampling
        # A server may have other defaults, from the model's own file. Only vLLM and its like know `top_k`.
        cut = {"top_k": chosen.top_k} if chosen.top_k else {}
        return {
            "max_tokens": chosen.max_new_tokens,
            "temperature": chosen.temperature,
            "top_p": 1.0,
            "seed": row.number,
            **cut,
        }

    def _weighed(self, prompt: str | list[int]) -> TextLikelihood:
        body = {"model": self._base, "prompt": prompt, "max_tokens": 0, "echo": True, "logprobs": 0}
        answer = self._server.completion(body | {"temperature": 1.0}).only
        first, *odds = self._logprobs(answer)
        if first is not None or None in odds or not odds:
            raise BadBackendOutput(
                f"{self._server.name!r} did not return the likelihood of each token after the first"
            )
        return text_likelihood(sum(one for one in odds if one is not None), len(odds))

    def _logprobs(self, answer: CompletionChoice) -> list[float | None]:
        if answer.logprobs is None:
            raise BadBackendOutput(
                f"{self._server.name!r} returned no likelihoods of the prompt; take a server that knows "
                "`echo` with `logprobs`"
            )
        return answer.logprobs.token_logprobs
