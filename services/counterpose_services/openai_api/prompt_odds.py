"""Log-probabilities of a text's tokens behind a prompt, as vLLM tells them (``prompt_logprobs``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from counterpose_core.errors import BadBackendOutput
from counterpose_services.openai_api.answers import Chat, PromptToken

WITH_PROMPT: Mapping[str, Any] = {"temperature": 0.0, "prompt_logprobs": 0}
"""Fields of a request whose answer has the likelihood of each token of its prompt."""


def odds_after(before: Chat, whole: Chat, server: str) -> list[float]:
    """Return the log-probabilities in nats of a whole prompt's tokens after those that both prompts share.

    Raises:
        BadBackendOutput: ``server`` tells none.
    """
    first, second = (_prompt_of(chat, server) for chat in (before, whole))
    shared = next(
        (place for place, (one, two) in enumerate(zip(first, second, strict=False)) if one[0] != two[0]),
        min(len(first), len(second)),
    )
    odds = [logprob for _, logprob in second[shared:]]
    if not odds or not math.isfinite(sum(odds)):
        raise BadBackendOutput(f"{server!r} returned no likelihood of the text's tokens")
    return odds


def _prompt_of(chat: Chat, server: str) -> Sequence[tuple[str, float]]:
    """Return the id of each token of a prompt after its first, with its likelihood."""
    if not chat.prompt_logprobs or None in chat.prompt_logprobs[1:]:
        raise BadBackendOutput(
            f"{server!r} returned no likelihoods of the prompt; take a server that knows `prompt_logprobs`"
        )
    # With no further ones asked for, each place tells the token that is there, and no other.
    return [(token, told.logprob) for place in chat.prompt_logprobs[1:] for token, told in _only(place)]


def _only(place: dict[str, PromptToken] | None) -> list[tuple[str, PromptToken]]:
    return list((place or {}).items())[:1]
