"""A scripted model that chats about images: sees what a test says, and prefers what is listed first."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.images.codecs import Pixels, decode_image, encode_raw
from counterpose_core.suite_chats import ChatSuite
from counterpose_services.classifiers.chat.chat_classifiers import ChatClassifiers
from counterpose_services.classifiers.chat.question import LETTERS
from fakes.openai_server import URL, server_over

Sees = Callable[[Pixels, Sequence[str]], Sequence[float]]
"""From an image and the labels in the order of the list to a logit of each."""
USAGE = {"prompt_tokens": 90, "completion_tokens": 3, "total_tokens": 93}
COLOURS = {"red": (208, 32, 32), "green": (32, 160, 32), "blue": (32, 32, 208)}


def said(content: str | None, finish: str = "stop", **choice: Any) -> httpx.Response:
    """An answer in these words."""
    told = {"message": {"role": "assistant", "content": content}, "finish_reason": finish} | choice
    return httpx.Response(200, json={"choices": [told], "usage": USAGE})


def by_colour(pixels: Pixels, labels: Sequence[str]) -> list[float]:
    """The label of a colour's name is surest where the image has most of it."""
    mean = pixels.reshape(-1, 3).mean(axis=0)
    return [
        -float(np.abs(mean - COLOURS[label]).sum()) / 50 if label in COLOURS else -9.0 for label in labels
    ]


@dataclass
class ScriptedChat:
    """Answers each question; ``said`` replaces the words of answers beside those to colours."""

    sees: Sees = by_colour
    first: float = 0.0
    """Logit by which it prefers the label that is listed first."""
    words: Callable[[Pixels], str | None] = lambda _: None
    """Words in place of an answer, or None."""
    knows: Sequence[str] = ("logprobs", "response_format", "image")
    change: Callable[[dict[str, Any]], None] = lambda choice: None
    """Changes the choice of an answer in place."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Bodies, without those of the look."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        body = json.loads(request.content)
        image, text = body["messages"][0]["content"]
        look = text["text"].startswith("Which colour does the whole image have?")
        if not look:
            self.asked.append(body)
        for name in ("logprobs", "response_format"):
            if name in body and name not in self.knows:
                return httpx.Response(400, json={"error": {"message": f"unknown field {name}", "code": None}})
        if "image" not in self.knows:
            return httpx.Response(
                400, json={"error": {"message": "this model takes no images", "code": None}}
            )
        pixels = decode_image(base64.b64decode(image["image_url"]["url"].partition(",")[2]))
        if not look and (words := self.words(pixels)) is not None:
            return said(words)
        return self._chosen(body, pixels, text["text"], plain=look)

    def _chosen(self, body: Mapping[str, Any], pixels: Pixels, text: str, *, plain: bool) -> httpx.Response:
        labels = [re.sub(r"^(- |[A-T]\. )", "", line) for line in text.splitlines()[2:]]
        logits = np.array((by_colour if plain else self.sees)(pixels, labels), dtype=float)
        logits[0] += 0.0 if plain else self.first
        logs = logits - math.log(np.exp(logits - logits.max()).sum()) - logits.max()
        best = int(np.argmax(logs))
        if "response_format" in body:
            allowed = body["response_format"]["json_schema"]["schema"]["properties"]["label"]["enum"]
            assert allowed == labels
            return self._told({"content": json.dumps({"label": labels[best]})})
        if "logprobs" not in body:
            return self._told({"content": labels[best]})
        tokens: list[dict[str, Any]] = [
            {"token": letter, "logprob": float(log)} for letter, log in zip(LETTERS, logs, strict=False)
        ]
        content = [{**tokens[best], "top_logprobs": sorted(tokens, key=lambda one: -one["logprob"])}]
        return self._told({"content": LETTERS[best]}, logprobs={"content": content})

    def _told(self, message: dict[str, Any], **more: Any) -> httpx.Response:
        choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop", **more}
        self.change(choice)
        return httpx.Response(200, json={"choices": [choice], "usage": USAGE})


def chat_suite(**changes: Any) -> ChatSuite:
    """A question to the scripted model."""
    return ChatSuite.model_validate({"server": URL, "model": "vlm", "question": "Which colour?"} | changes)


def chat_classifiers(
    server: Callable[[httpx.Request], httpx.Response], store: BlobStore, **suites: ChatSuite
) -> ChatClassifiers:
    """Classifiers over the scripted model, by default one named ``colour``."""
    return ChatClassifiers(suites or {"colour": chat_suite()}, lambda _: server_over(server), store)


def chat_answer(words: str) -> Callable[[Path], Awaitable[None]]:
    """Ask a model about an image that says this of it, and raise what comes of it."""

    async def ask(folder: Path) -> None:
        store = BlobStore(str(folder))
        image = store.put(encode_raw(np.zeros((8, 8, 3), np.uint8)))
        engine = chat_classifiers(ScriptedChat(words=lambda _: words), store)
        request = ClassifyRequest(classifier="chat:colour", images=[image], classes=["red", "blue"])
        [outcome] = engine.classify(request).outcomes
        outcome.unwrap()

    return ask


NO_LABELS = {
    "answer-off-list": (chat_answer("both"), "'both'", "reword the question, or the labels"),
    "answer-refused": (chat_answer("I'm sorry, no."), "sorry", "choose another model"),
    "answer-unreadable": (chat_answer("word " * 99), "'word word", "raise max_tokens"),
}
"""For each code what provokes it, what the message names, and what it says to do."""
