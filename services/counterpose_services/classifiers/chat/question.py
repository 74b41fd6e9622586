"""What a model that chats is asked about an image: one question, and the labels among which it chooses."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from counterpose_core.blobs import cache_key
from counterpose_core.errors import ClassMapMismatch, InvalidRequest
from counterpose_core.suite_chats import ChatAnswers, ChatSuite

MOST_LETTERS = 20
"""Servers tell the log-probabilities of no more tokens at a place (``top_logprobs``)."""
LETTERS = string.ascii_uppercase[:MOST_LETTERS]
_AROUND = string.whitespace + "\"'`*.,:;!()[]“”‘’„«»"  # marks that models set around a label
_ENDINGS: Mapping[ChatAnswers, str] = {
    "letters": "Answer with the letter of one of these, and nothing else:",
    "labels": "Answer with one of these, exactly as it is written, and nothing else:",
    "text": "Answer with one of these, exactly as it is written, and nothing else:",
    "choice": 'Answer with one of these, as a JSON object {"label": "..."} alone:',
}


def plain(words: str) -> str:
    """Return words as they are compared: without case, underscores, and the marks around them."""
    return " ".join(words.replace("_", " ").split()).strip(_AROUND).casefold()


@dataclass(frozen=True)
class Question:
    """The ``words`` of each label, listed in an ``order`` of places; ``answers`` says how one is read."""

    suite: ChatSuite
    answers: ChatAnswers
    words: tuple[str, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, suite: ChatSuite, answers: ChatAnswers, classes: Sequence[str], *, rotation: int = 0) -> Self:
        """Ask for one of these classes, the one at ``rotation`` listed first.

        Raises:
            ClassMapMismatch: two labels read alike, or one has no words.
            InvalidRequest: there are more labels than letters.
        """
        words = tuple(" ".join(suite.labels.get(name, name.replace("_", " ")).split()) for name in classes)
        counted = Counter(map(plain, words))
        for name, own in zip(classes, words, strict=True):
            if not plain(own) or counted[plain(own)] > 1:
                wrong = "is shared with another class" if plain(own) else "has no word"
                raise ClassMapMismatch(
                    f"the label {own!r} of the class {name!r} {wrong}, so an answer could not be told; give "
                    "each class words of its own in `labels` of the suite's [chat] section"
                )
        if answers == "letters" and len(words) > MOST_LETTERS:
            raise InvalidRequest(
                f"{len(words)} labels are more than the {MOST_LETTERS} whose log-probabilities a server "
                "tells; set answers to 'auto', 'labels', 'choice' or 'text' in the suite's [chat] section"
            )
        places = range(len(words))
        return cls(suite, answers, words, tuple((place + rotation) % len(words) for place in places))

    @property
    def listed(self) -> list[str]:
        """The labels in the order in which the model reads them."""
        return [self.words[place] for place in self.order]

    @cached_property
    def text(self) -> str:
        """The question with its list."""
        marks = (
            [f"{letter}. " for letter in LETTERS] if self.answers == "letters" else ["- "] * len(self.words)
        )
        listed = (f"{mark}{words}" for mark, words in zip(marks, self.listed, strict=False))
        return "\n".join([self.suite.question, _ENDINGS[self.answers], *listed])

    @cached_property
    def digest(self) -> str:
        """Of all that an answer depends on beside the image and the weights, which the server alone knows."""
        named = self.suite.model_dump(exclude={"labels", "look", "order_images"})
        return cache_key(suite=named, answers=self.answers, text=self.text)

    @cached_property
    def place_of(self) -> Mapping[str, int]:
        """The place of each label, by its words as they are compared."""
        return {plain(words): place for place, words in enumerate(self.words)}

    def body(self, image: str) -> dict[str, Any]:
        """Return the request that shows ``image``, an address, and asks the question."""
        content = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": self.text}]
        return {
            "model": self.suite.model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": self.suite.max_tokens,
            "temperature": 0.0,
            **self._reading,
        }

    @property
    def _reading(self) -> dict[str, Any]:
        """The fields by which a server tells log-probabilities, or says nothing but a label."""
        if self.answers == "letters":
            return {"logprobs": True, "top_logprobs": MOST_LETTERS}
        if self.answers != "choice":
            return {}
        label = {"type": "string", "enum": self.listed}
        schema = {"type": "object", "properties": {"label": label}, "required": ["label"]}
        named = {"name": "label", "strict": True, "schema": schema | {"additionalProperties": False}}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
