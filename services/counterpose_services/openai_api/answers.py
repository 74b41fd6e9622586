"""The parts of the OpenAI API's answers that are read; whatever else a server sends is ignored."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _Answer(_Read):
    """``usage`` is read later, as its fields differ by server, and nothing else depends on it."""

    usage: Any = None


class TokenLogprobs(_Read):
    """The log-probability of each token in nats; null for the first of a prompt, which nothing precedes."""

    token_logprobs: list[float | None] = Field(min_length=1)


class CompletionChoice(_Read):
    """One answer; ``token_ids`` are vLLM's, the end token included."""

    text: str
    finish_reason: str | None = None
    logprobs: TokenLogprobs | None = None
    token_ids: list[int] | None = None


class Completion(_Answer):
    """The answer of ``POST /v1/completions``."""

    choices: list[CompletionChoice] = Field(min_length=1)

    @property
    def only(self) -> CompletionChoice:
        """The answer, where one was asked for."""
        return self.choices[0]


class Message(_Read):
    """What the model said, null if it refused or called a tool; some servers have a refusal stand apart."""

    content: str | None = None
    refusal: str | None = None


class ChatChoice(_Read):
    """One answer of a chat; ``logprobs`` are read by who asked for them."""

    message: Message
    finish_reason: str | None = None
    logprobs: Any = None


class LikelyToken(_Read):
    """A token as it is written, and its log-probability in nats."""

    token: str
    logprob: float


class ChatToken(LikelyToken):
    """A token of an answer, and the likeliest ones at its place."""

    top_logprobs: list[LikelyToken] = Field(min_length=1)


class ChatLogprobs(_Read):
    """The tokens of an answer."""

    content: list[ChatToken] = Field(min_length=1)


class PromptToken(_Read):
    """A prompt's token as vLLM tells it, under its id."""

    logprob: float


class Chat(_Answer):
    """The answer of ``POST /v1/chat/completions``; ``prompt_logprobs`` are vLLM's, by id at each place."""

    choices: list[ChatChoice] = Field(min_length=1)
    prompt_logprobs: list[dict[str, PromptToken] | None] | None = None

    @property
    def only(self) -> ChatChoice:
        """The answer, where one was asked for."""
        return self.choices[0]


class Drawing(_Read):
    """An image in base64; some servers send an address instead."""

    b64_json: str | None = None
    url: str | None = None


class Drawings(_Answer):
    """The answer of ``POST /v1/images/...``."""

    data: list[Drawing]


class ErrorText(_Read):
    """The sentence in a refusal, and its code: a word, a number, or none."""

    message: str
    code: Any = None


class Refusal(_Read):
    """A body of a refusal: OpenAI's, where ``error`` holds the sentence."""

    error: ErrorText
