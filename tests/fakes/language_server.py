"""A vision-language model on loopback, as vLLM serves one: it captions images, and changes captions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from fakes.images_server import Asked, ImagesServer, Reply, images_server
from fakes.openai_server import URL, see

PLACES = ("grass", "snow", "sand", "water")
"""A caption says the first; proposals say the others."""


def chat(asked: Asked, _: threading.Event) -> Reply:
    """Weigh a text, go on from a caption's beginning, or propose captions of other places, as it is asked."""
    if asked.path.endswith("/completions") and "prompt" in asked.fields:
        odds = [None, *(-float(len(word)) for word in str(asked.fields["prompt"]).split())]
        told = {"text": "", "finish_reason": "length", "logprobs": {"token_logprobs": odds}}
        return Reply(json.dumps({"choices": [told]}).encode())
    messages: Any = asked.fields["messages"]
    if "response_format" in asked.fields:
        caption = str(messages[-1]["content"]).rpartition("Caption: ")[2]
        proposed = [caption.replace(PLACES[0], place) for place in PLACES[1:]]
        said, answer = json.dumps({"captions": proposed}), dict[str, Any](choices=[{"finish_reason": "stop"}])
    else:
        # With the likelihoods of a prompt.
        said, answer = f"on the {PLACES[0]}", see(httpx.Request("POST", URL, json=dict(asked.fields))).json()
    answer["choices"][0]["message"] = {"role": "assistant", "content": said}
    return Reply(json.dumps(answer).encode())


@contextmanager
def language_server() -> Iterator[ImagesServer]:
    """Serve during the block."""
    with images_server(chat) as serving:
        yield serving
