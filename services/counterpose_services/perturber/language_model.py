"""What the perturber asks of a language model, wherever it runs: in this process or behind the OpenAI API."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.perturber import TextLikelihood
from counterpose_core.errors import BadBackendOutput, CounterposeError

Messages = tuple[dict[str, str], ...]
"""A chat's messages, each with ``role`` and ``content``."""
Prompt = list[int] | str | Messages
"""A prompt as a model takes it: token ids where its vocabulary is at hand, else text or messages."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; ``top_k`` 0 means from all tokens."""

    temperature: float
    top_k: int
    max_new_tokens: int


@dataclass(frozen=True)
class Row:
    """A prompt and the inputs of its draws: equal prompt, seed and draw give equal numbers."""

    prompt: Prompt
    seed: int
    draw: int

    @property
    def number(self) -> int:
        """The seed of this row's draws, 63 bits.

        It depends on the prompt too, or all captions of one seed would get the same unlikely numbers.
        """
        digest = hashlib.sha256(f"{self.seed}/{self.draw}/{self.prompt}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1


@dataclass(frozen=True)
class Written:
    """An answer; not ``finished`` if it was cut, not ``readable`` if a word of it is outside the vocabulary.

    ``captions`` are those of a list that the answer's form marks; without it, ``text`` has one a line.
    """

    text: str
    finished: bool
    readable: bool = True
    captions: tuple[str, ...] | None = None


class LanguageModel(Protocol):
    """A model with its adapter, and its base without."""

    @property
    def identity(self) -> ModelIdentity: ...

    @property
    def base_identity(self) -> ModelIdentity: ...

    def prompt(self, asked: str | Messages, caption: str) -> Prompt:
        """Return a prompt about ``caption`` as the model takes it.

        Raises:
            InvalidRequest: the caption has a word that the model cannot read, or a mark that it would obey.
            PromptTooLong: there is no room for an answer.
        """

    def write(self, rows: Sequence[Row]) -> list[Written | CounterposeError]:
        """Answer each row's prompt, or say why this one cannot be answered.

        Raises:
            BackendError: none can be answered now; the whole call may be repeated.
        """

    def weigh(self, texts: Sequence[str]) -> list[Outcome[TextLikelihood]]:
        """Return log p of each text under the base alone, in nats, summed over the text's tokens."""


def text_likelihood(nats: float, tokens: int) -> TextLikelihood:
    """Return the likelihood of a text of so many tokens.

    Raises:
        BadBackendOutput: it is not a number.
    """
    if not math.isfinite(nats):
        raise BadBackendOutput(f"the log-likelihood of a text of {tokens} tokens is {nats}")
    # If the model is certain of every token, rounding may give a number above 0.
    return TextLikelihood(nats=min(nats, 0.0), tokens=tokens)
