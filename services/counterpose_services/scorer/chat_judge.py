"""The judge behind the OpenAI API: a model that chats about images, asked closed questions about an edit."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from counterpose_core.blobs import BlobStore, cache_key, digest
from counterpose_core.contract.base import MAX_BATCH, ModelIdentity
from counterpose_core.contract.judges import JudgeItem, Judgement, JudgeRequest, JudgeResponse, Reply, Verdict
from counterpose_core.errors import (
    BadBackendOutput,
    CounterposeError,
    DeadlineExceeded,
    InvalidRequest,
    PolicyRefused,
    UnknownModel,
)
from counterpose_core.images.codecs import Pixels, decode_image
from counterpose_core.suite import JudgeSuite
from counterpose_core.text.edit_instruction import TEMPLATES
from counterpose_core.types import Cost
from counterpose_services.batching.outcomes import settle
from counterpose_services.openai_api.connect import listed_server
from counterpose_services.openai_api.images import data_url
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.openai_api.shared_look import SharedLook
from counterpose_services.openai_api.terms import language_terms
from counterpose_services.settings import ServiceSettings

KEPT_KIND = "judge"
"""The kind under which the store keeps answers: a call that is repeated is not paid for twice."""

_ASKED = (
    "The second image was made of the first one by an editor. It was told: {instruction}\n"
    'Answer each question by "yes", "no" or "unsure".\n{questions}\n'
    "Answer with one JSON object alone: {form}"
)
QUESTIONS: Mapping[str, str] = {
    "change": "Does the second image show the change that was asked for?",
    "object": "Is the {label} of the first image still there, and is it still a {label}?",
    "rest": "Is everything else the same in both images?",
}
"""The closed questions; a placebo, whose words keep the meaning, is not asked for a change."""
_SIGHT = (
    "Do both images have the same colour? Answer with one JSON object alone: "
    '{"same": "yes"} or {"same": "no"}'
)
_RED, _BLUE = (np.full((64, 64, 3), colour, np.uint8) for colour in ((208, 32, 32), (32, 32, 208)))
# The object is the whole answer, save a fence: one among other words may be quoted from what was asked.
_ANSWER = re.compile(r"(?:```(?:json)?\s*)?(\{[^{}]*\})(?:\s*```)?")
# A caption or a label that holds an object is no form of an answer.
_NO_BRACES = str.maketrans("{}", "()")


class _Replies(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    change: Reply | None = None
    object: Reply | None = None
    rest: Reply | None = None


class _Same(BaseModel):
    same: Reply


Form = TypeVar("Form", bound=BaseModel)


@dataclass(frozen=True)
class _Question:
    """What is asked of an edit, the names of its questions, and the key of the answer."""

    body: Mapping[str, Any]
    names: Sequence[str]
    key: str
    of: str


class ChatJudge:
    """Judges edits by a server's model, each by a request of its own.

    An answer that refuses, that comes late, or that is none of the form asked for is a verdict of its own. A
    request that the server does not take, or a model that it does not serve, fails the edit.
    Before the first one, the model is shown two images of one colour and two of different ones: a model that
    does not see them would judge all the same.
    """

    def __init__(self, server: OpenAIServer, suite: JudgeSuite, store: BlobStore) -> None:
        self._server, self._suite, self._store = server, suite, store
        # Nobody but the server knows its weights, or when they change.
        told = f"{server.url} {suite.model} {_ASKED} {list(QUESTIONS.values())}"
        self.identity = ModelIdentity(id=f"{suite.model} at {server.name}", revision=digest(told.encode()))
        self._require_sight = SharedLook(self._see)

    @classmethod
    def load(cls, suite: JudgeSuite, settings: ServiceSettings, store: BlobStore) -> ChatJudge:
        """Return the judge at the suite's server; raises UnknownModel if its host is not listed."""
        return cls(listed_server(suite.server, language_terms(settings)), suite, store)

    def judge(self, request: JudgeRequest) -> JudgeResponse:
        """Judge each edit.

        Raises:
            UnknownModel: the model does not see images, or the server does not take them.
            BackendUnavailable: the server cannot be reached.
        """
        started = time.monotonic()
        self._require_sight()
        outcomes = settle(
            request.items,
            prepare=self._question,
            run=partial(self._server.together, self._judged),
            finish=lambda _, judgement: judgement,
            batch=MAX_BATCH,
        )
        cost = Cost(seconds=time.monotonic() - started)
        return JudgeResponse(outcomes=outcomes, model=self.identity, cost=cost)

    def _question(self, item: JudgeItem) -> _Question:
        names = [name for name in QUESTIONS if item.change or name != "change"]
        caption, edited, label = (
            words.translate(_NO_BRACES)
            for words in (item.caption, item.edited_caption if item.change else item.caption, item.label)
        )
        text = _ASKED.format(
            instruction=TEMPLATES["both-captions"].instruction(caption, edited),
            questions="\n".join(f"{name}: {QUESTIONS[name].format(label=label)}" for name in names),
            form="{" + ", ".join(f'"{name}": "..."' for name in names) + "}",
        )
        refs = (item.original, item.edited)
        key = cache_key(images=refs, text=text, model=self.identity.revision)
        images = [decode_image(self._store.get(ref)) for ref in refs]
        return _Question(self._body(images, text), names, key, item.edited)

    def _body(self, images: Sequence[Pixels], text: str) -> dict[str, Any]:
        parts = [{"type": "image_url", "image_url": {"url": data_url(one)}} for one in images]
        return {
            "model": self._suite.model,
            "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}],
            "max_tokens": self._suite.max_tokens,
            "temperature": 0.0,
        }

    def _judged(self, question: _Question) -> Judgement:
        kept = self._store.find(KEPT_KIND, question.key, of=question.of)
        if kept is not None:
            return Judgement.model_validate_json(kept)
        try:
            told = self._said(question.body, _Replies)
        except CounterposeError as error:
            verdict = _verdict_of(error)
            if verdict is None:
                raise
            return Judgement(verdict=verdict, detail=error.detail)
        replies = told.model_dump(exclude_none=True)
        if set(replies) != set(question.names):
            said = f"it answers {sorted(replies)}, and was asked {sorted(question.names)}"
            return Judgement(verdict="malformed", detail=said)
        judgement = Judgement(verdict=_verdict(replies), replies=replies, detail=_why(replies))
        # What has no form is asked for again where the call is repeated.
        self._store.keep(KEPT_KIND, question.key, judgement.model_dump_json().encode(), of=question.of)
        return judgement

    def _said(self, body: Mapping[str, Any], form: type[Form]) -> Form:
        answer = self._server.chat(body).only
        text, cut = answer.message.content or "", answer.finish_reason == "length"
        if not (text or cut) or answer.finish_reason == "content_filter":
            raise PolicyRefused(f"{self._server.name!r} gave no answer ({answer.finish_reason})")
        whole = _ANSWER.fullmatch(text.strip())
        try:
            if whole is not None:
                # Models begin a reply with a capital letter.
                return form.model_validate_json(whole[1].casefold())
        except ValidationError:
            pass
        why = f", cut at {self._suite.max_tokens} tokens; raise max_tokens of [judge]" if cut else ""
        raise BadBackendOutput(f"{self._server.name!r} answered {text[:200]!r} to closed questions{why}")

    def _see(self) -> None:
        try:
            same, other = (
                self._said(self._body([_RED, second], _SIGHT), _Same).same for second in (_RED, _BLUE)
            )
        except (BadBackendOutput, InvalidRequest, PolicyRefused) as error:
            raise UnknownModel(
                f"the judge {self.identity.id!r} does not judge two images: {error.detail}; choose a "
                "model that takes images, and a server that permits two in a request"
            ) from error
        if (same, other) != ("yes", "no"):
            raise UnknownModel(
                f"the judge {self.identity.id!r} does not see images: of two equal colours it says "
                f"{same!r} to 'the same?', of red and blue {other!r}; choose a model with vision"
            )


def _verdict_of(error: CounterposeError) -> Verdict | None:
    """Return what an error says of a judge's answer; None where it says nothing of it."""
    if isinstance(error, PolicyRefused):
        return "refused"
    if isinstance(error, BadBackendOutput):
        return "malformed"
    return "late" if isinstance(error, DeadlineExceeded) else None


def _verdict(replies: Mapping[str, Reply]) -> Verdict:
    for verdict in ("no", "unsure"):
        if verdict in replies.values():
            return "no" if verdict == "no" else "unsure"
    return "yes"


def _why(replies: Mapping[str, Reply]) -> str:
    return ", ".join(f"{name}: {reply}" for name, reply in replies.items() if reply != "yes")
