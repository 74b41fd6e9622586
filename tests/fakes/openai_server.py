"""A server with the OpenAI API over the tiny LLaMA, and clients of whatever else a server may answer."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.suite import CaptionerSuite, PerturberSuite
from counterpose_services.captioner.openai_engine import OpenAICaptioner
from counterpose_services.openai_api.server import OpenAIServer, Patience
from counterpose_services.outbound.calls import AnswerLimits
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.perturber.language_model import Row, Sampling
from counterpose_services.perturber.openai_model import OpenAIModel, Reader
from counterpose_services.perturber.transformers_model import TransformersModel
from counterpose_services.perturber.vocabulary import Vocabulary

URL = "http://model.test/v1"
ADAPTED, BASE = "edits", "base"
Handler = Callable[[httpx.Request], httpx.Response]
IDENTITIES = (ModelIdentity(id=ADAPTED, revision="1" * 64), ModelIdentity(id=BASE, revision="2" * 64))


class TinyServer:
    """Answers completions from the model that `save_llama` saved."""

    def __init__(self, suite: PerturberSuite, root: Path) -> None:
        self.seen: list[dict[str, Any]] = []
        self._models = {
            ADAPTED: TransformersModel.load(suite, root, device="cpu", dtype="float32"),
            BASE: TransformersModel.load(
                suite.model_copy(update={"adapter": None}), root, device="cpu", dtype="float32"
            ),
        }
        # Requests come from many threads, and a model takes one at a time.
        self._lock = threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        with self._lock, torch.inference_mode():
            self.seen.append(body)
            answer = self._weighed(body) if body.get("echo") else self._written(body)
        return httpx.Response(200, json={"object": "text_completion", "choices": [answer]})

    def _written(self, body: dict[str, Any]) -> dict[str, Any]:
        model = self._models[body["model"]]
        model._sampling = Sampling(body["temperature"], body.get("top_k", 0), body["max_tokens"])
        row = Row(body["prompt"], body["seed"], 0)
        (ids,) = model._sampled([row])
        said = model._written(ids)
        return {
            "index": 0,
            "text": said.text,
            "finish_reason": "stop" if said.finished else "length",
            "token_ids": ids if body.get("return_token_ids") else None,
        }

    def _weighed(self, body: dict[str, Any]) -> dict[str, Any]:
        rows = [body["prompt"][:end] for end in range(2, len(body["prompt"]) + 1)]
        totals = [0.0, *(self._models[body["model"]]._weighed([row])[0] for row in rows)]
        odds = [after - before for before, after in pairwise(totals)]
        return {"index": 0, "text": "", "logprobs": {"token_logprobs": [None, *odds], "tokens": []}}


def server_over(
    handler: Handler, *, waits: list[float] | None = None, seconds: float = 30.0, in_flight: int = 8
) -> OpenAIServer:
    """A client whose requests ``handler`` answers; it records its pauses and does not wait."""
    slept = [] if waits is None else waits
    return OpenAIServer(
        URL,
        httpx.Client(transport=httpx.MockTransport(handler)),
        limits=AnswerLimits(seconds, 2**20),
        in_flight=in_flight,
        patience=Patience(sleep=slept.append, clock=lambda: sum(slept), jitter=lambda: 1.0),
    )


def engine_over(handler: Handler, suite: PerturberSuite, reader: Reader | None) -> PerturberEngine:
    """A perturber whose language model ``handler`` plays."""
    sampling = Sampling(suite.temperature, suite.top_k, suite.max_new_tokens)
    model = OpenAIModel(
        server_over(handler), names=(ADAPTED, BASE), identities=IDENTITIES, sampling=sampling, reader=reader
    )
    return PerturberEngine(model, style=suite.prompt)


def tiny_engine(suite: PerturberSuite, root: Path) -> PerturberEngine:
    """A perturber over a server that has the tiny LLaMA."""
    reader = Vocabulary.load(root / suite.model, room=suite.max_new_tokens)
    return engine_over(TinyServer(suite, root), suite, reader)


def see(request: httpx.Request) -> httpx.Response:
    """Play a model that chats about images: its words, and their likelihoods, depend on the image."""
    body = json.loads(request.content)
    told = [body["messages"][0]["content"][0]["image_url"]["url"], body["messages"][0]["content"][1]["text"]]
    begun = body["messages"][1]["content"] if len(body["messages"]) > 1 else ""
    assert body["continue_final_message"] == bool(begun) != body["add_generation_prompt"]
    number = int.from_bytes(hashlib.sha256(told[0].encode()).digest()[:4], "big")
    # Some templates open an answer with a mark that an answer of the caller's own does not have.
    words = ["<image>", *told[1].split(), "<assistant>", *(begun.split() or ["<open>"])]
    odds: list[Any] = [None]
    for word in words:
        shade = int.from_bytes(hashlib.sha256(f"{number} {word}".encode()).digest()[:2], "big")
        odds.append({str(hash_of(word)): {"logprob": -0.1 - shade / 65536, "rank": 1, "decoded_token": word}})
    answer = ["a", ("red", "blue", "green")[number % 3], "boat", "on", "the", "sea"]
    said = " ".join(answer[: body["max_tokens"]])
    choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
    return httpx.Response(200, json={"choices": [choice], "prompt_logprobs": odds})


def hash_of(word: str) -> int:
    """The id of a word."""
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")


def captioner_over(handler: Handler, store: BlobStore, **suite: object) -> OpenAICaptioner:
    """A captioner whose model ``handler`` plays."""
    given = {"engine": "openai", "server": URL, "model": BASE, "beams": 1, "min_tokens": 2, "max_tokens": 20}
    identity = ModelIdentity(id=BASE, revision="3" * 64)
    return OpenAICaptioner(
        server_over(handler),
        identity=identity,
        suite=CaptionerSuite.model_validate(given | suite),
        store=store,
    )
