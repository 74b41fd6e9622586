"""A classifier that is a model which chats about images: each image is a question of its own to a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.base import MAX_BATCH, Outcome
from counterpose_core.errors import (
    AnswerRefused,
    BadBackendOutput,
    CounterposeError,
    InvalidRequest,
    NoLabel,
    PolicyRefused,
    UnknownModel,
)
from counterpose_core.image_recipes import MadeImages
from counterpose_core.suite_chats import ChatAnswers, ChatSuite
from counterpose_services.batching.outcomes import settle
from counterpose_services.classifiers.chat.answer import no_label, read_answer
from counterpose_services.classifiers.chat.question import MOST_LETTERS, Question
from counterpose_services.models.cached_forward import Floats
from counterpose_services.openai_api.answers import Chat
from counterpose_services.openai_api.images import data_url
from counterpose_services.openai_api.prompt_odds import WITH_PROMPT, odds_after
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.openai_api.shared_look import SharedLook

KEPT_KIND = "chat-answer"
"""The kind under which the store keeps answers: a call that is repeated is not paid for twice."""
COLOURS = {"red": (208, 32, 32), "blue": (32, 32, 208)}
_SIGHT = "Which colour does the whole image have?"


@dataclass(frozen=True)
class _Asked:
    """A question about an image, the key of its answer, and the stored image that it goes with."""

    question: Question
    image: str
    key: str
    of: str


class ChatClassifier:
    """Answers one question of a suite; what refuses, or names no label, is an outcome of its own.

    Before the first one, the model is shown a red and a blue image, in the ways to answer that the suite
    leaves open: the first in which it tells them apart is the one that is used.
    """

    def __init__(self, server: OpenAIServer, suite: ChatSuite, name: str, store: BlobStore) -> None:
        self._server, self._suite, self._name, self._store = server, suite, name, store
        self._answers = SharedLook(self._look)

    @property
    def order_images(self) -> int:
        """The number of images on which the effect of the labels' order is measured."""
        return self._suite.order_images

    def question(self, classes: Sequence[str], *, rotation: int = 0) -> Question:
        """Return what is asked about these classes, the one at ``rotation`` listed first.

        Raises:
            ClassMapMismatch: two labels read alike, or one has no words.
            UnknownModel: the model does not see images, or the server does not take them.
            BackendUnavailable: the server cannot be reached.
        """
        # Before a server is asked anything.
        Question.of(self._suite, "text" if self._suite.answers == "auto" else self._suite.answers, classes)
        answers = self._answers()
        if answers == "letters" and self._suite.answers == "auto" and len(classes) > MOST_LETTERS:
            answers = "choice"
        return Question.of(self._suite, answers, classes, rotation=rotation)

    def ask(
        self, images: Sequence[str], question: Question
    ) -> tuple[list[Outcome[Floats]], Mapping[str, str]]:
        """Return the probability of each label for each image, and digests of images made of recipes."""
        made, distinct = MadeImages(), list(dict.fromkeys(images))

        def prepare(ref: str) -> _Asked:
            key = cache_key(image=ref, question=question.digest)
            return _Asked(question, data_url(made(ref, self._store.get)), key, ref.partition("/")[0])

        outcomes = settle(
            distinct,
            prepare=prepare,
            run=partial(self._server.together, self._answered),
            finish=lambda _, odds: _unwrapped(odds),
            batch=MAX_BATCH,
        )
        found = dict(zip(distinct, outcomes, strict=True))
        return [found[image] for image in images], made.digests

    def _answered(self, asked: _Asked) -> Floats | NoLabel:
        kept = self._store.find(KEPT_KIND, asked.key, of=asked.of)
        if kept is not None and len(kept) == 4 * len(asked.question.words):
            return np.frombuffer(kept, dtype=np.float32)
        try:
            odds = self._said(asked.question, asked.image)
        # Asked again where the call is repeated: a policy may change.
        except NoLabel as error:
            return error
        except PolicyRefused as error:
            return no_label(AnswerRefused, error.detail)
        self._store.keep(KEPT_KIND, asked.key, odds.tobytes(), of=asked.of)
        return odds

    def _said(self, question: Question, image: str) -> Floats:
        body = question.body(image)
        if question.answers != "labels":
            return read_answer(self._server.chat(body).only, question, self._server.name)
        weigh: Callable[[list[dict[str, str]]], Chat] = lambda said: self._server.chat(  # noqa: E731
            {
                **body,
                **WITH_PROMPT,
                "messages": [*body["messages"], *said],
                "max_tokens": 1,
                # With the label, the mark that ends it: "boat" is no beginning of "boat house".
                "add_generation_prompt": not said,
            }
        )
        before = weigh([])
        logs = np.array(
            [
                sum(odds_after(before, weigh([{"role": "assistant", "content": words}]), self._server.name))
                for words in question.words
            ]
        )
        odds = np.exp(logs - logs.max())
        return np.asarray(odds / odds.sum(), dtype=np.float32)

    def _look(self) -> ChatAnswers:
        own = self._suite.answers
        if own != "auto" and not self._suite.look:
            return own
        ways: tuple[ChatAnswers, ...] = ("letters", "choice", "text") if own == "auto" else (own,)
        why = list[str]()
        for answers in ways:
            try:
                if seen := self._sees(answers):
                    why.append(seen)
                else:
                    return answers
            except (BadBackendOutput, InvalidRequest, NoLabel, PolicyRefused) as error:
                why.append(error.detail)
        raise UnknownModel(
            f"the model {self._suite.model!r} of 'chat:{self._name}' cannot tell a red from a blue image: "
            f"{why[-1]}; choose a model and a server that take images, or set look = false in the suite's "
            f"section [chat.{self._name}] for a model that answers nothing but its own question"
        )

    def _sees(self, answers: ChatAnswers) -> str:
        """Say what is wrong with the answers to two images; nothing where they are right or do not matter."""
        suite = self._suite.model_copy(update={"question": _SIGHT, "labels": {}})
        question = Question.of(suite, answers, list(COLOURS))
        for place, (colour, shade) in enumerate(COLOURS.items()):
            image = data_url(np.full((64, 64, 3), shade, np.uint8))
            try:
                odds = self._said(question, image)
            except (NoLabel, PolicyRefused):
                if self._suite.look:
                    raise
                return ""
            if self._suite.look and int(odds.argmax()) != place:
                return f"of {colour} it says {question.words[int(odds.argmax())]!r}"
        return ""


def _unwrapped(odds: Floats | NoLabel) -> Floats:
    if isinstance(odds, CounterposeError):
        raise odds
    return odds
