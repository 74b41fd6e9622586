"""A classifier that chats on vLLM gives the log-probabilities and the greedy answers of transformers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Blip2ForConditionalGeneration

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.classifiers import ClassifyRequest, Prediction
from counterpose_core.contract.order_effects import OrderEffectRequest
from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import CaptionerSuite
from counterpose_core.suite_chats import ChatSuite
from counterpose_services.captioner.served import load_served
from counterpose_services.classifiers.chat.chat_classifiers import ChatClassifiers
from counterpose_services.classifiers.chat.order_effect import order_effect
from counterpose_services.classifiers.chat.question import LETTERS, Question
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.settings import ServiceSettings
from fakes.tiny_models.seeing import QUERIES, save_seeing, seeing_processor
from vllm_server.conftest import ARGUMENTS, PROGRAM

CLASSES = [f"thing {letter}" for letter in LETTERS]
FEW = ["boat", "boat house", "tram"]
QUESTIONS = ["Name it.", "What do you see?", "Which one is it?"]
IMAGES = 8
NEAR = 1e-3
COMPACT = (
    "--structured-outputs-config.backend=xgrammar --structured-outputs-config.disable_any_whitespace=true"
)
"""A random model would go on with spaces between the marks of JSON."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_seeing(folder / "seeing")
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> BlobStore:
    return BlobStore(str(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def server(root: Path, store: BlobStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAIServer]:
    if not PROGRAM.exists():
        pytest.skip("there is no vLLM; `make test-vllm` installs it")
    settings = ServiceSettings.model_validate(
        {
            "state_dir": tmp_path_factory.mktemp("state"),
            "suite_root": root,
            "vllm": PROGRAM,
            "vllm_arguments": f"{ARGUMENTS} {COMPACT}",
        }
    )
    started = load_served(CaptionerSuite(model="seeing", engine="vllm", beams=1), settings, store)
    yield started._server
    started._server.close()


def suite(**changes: Any) -> ChatSuite:
    """A question to the random model, which cannot tell colours."""
    told = {"server": "http://own.test/v1", "model": "seeing", "question": "Which?", "look": False}
    return ChatSuite.model_validate(told | changes)


def asked(
    server: OpenAIServer, store: BlobStore, question: ChatSuite, classes: list[str]
) -> list[Outcome[Prediction]]:
    classifiers = ChatClassifiers({"own": question}, lambda _: server, store)
    images = [store.put(encode_png(pixels)) for pixels in noise()]
    return classifiers.classify(
        ClassifyRequest(classifier="chat:own", images=images, classes=classes)
    ).outcomes


def noise() -> list[np.ndarray]:
    draws = np.random.default_rng(11)
    return [draws.integers(0, 256, (28, 28, 3), dtype=np.uint8) for _ in range(IMAGES)]


class Reference:
    """The same network in transformers; the image's places come before the text, as in vLLM."""

    def __init__(self, folder: Path) -> None:
        self._model = Blip2ForConditionalGeneration.from_pretrained(folder).eval()
        self._processor = seeing_processor()
        self.tokenizer = self._processor.tokenizer

    def logs(self, pixels: np.ndarray, text: str, answer: str = "") -> tuple[torch.Tensor, list[int]]:
        """Log-probabilities of each place's next token from the answer's first one on, and its tokens."""
        place = self.tokenizer.convert_tokens_to_ids(self._processor.image_token.content)
        said = self.tokenizer(f"<bos><user>{text}<assistant>", add_special_tokens=False)["input_ids"]
        own = self.tokenizer(answer, add_special_tokens=False)["input_ids"] if answer else []
        ids = torch.tensor([[place] * QUERIES + said + own])
        seen = self._processor.image_processor(images=Image.fromarray(pixels), return_tensors="pt")
        with torch.inference_mode():
            logits = self._model(
                input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=seen["pixel_values"]
            ).logits[0]
        return logits.log_softmax(-1)[QUERIES + len(said) - 1 :], own


@pytest.fixture(scope="module")
def reference(root: Path) -> Reference:
    return Reference(root / "seeing")


def test_letters_have_the_probabilities_of_transformers_and_its_greedy_answer(
    server: OpenAIServer, store: BlobStore, reference: Reference
) -> None:
    said: Counter[str] = Counter()
    for words in QUESTIONS:
        said += compared(server, store, reference, suite(answers="letters", max_tokens=1, question=words))
    # Some greedy tokens are letters of the list, and some are not.
    assert said["off-list"] > 0
    assert said.total() - said["off-list"] > IMAGES
    assert len(said) > 2


def compared(server: OpenAIServer, store: BlobStore, reference: Reference, own: ChatSuite) -> Counter[str]:
    """How often each greedy letter was said, after it and all probabilities were found equal."""
    text, said = Question.of(own, "letters", CLASSES).text, Counter[str]()
    for pixels, outcome in zip(noise(), asked(server, store, own, CLASSES), strict=True):
        logs, _ = reference.logs(pixels, text)
        odds, ids = logs[0].exp().topk(20)
        tokens = [str(token) for token in reference.tokenizer.convert_ids_to_tokens(ids.tolist())]
        if tokens[0].upper() not in LETTERS:
            assert outcome.problem is not None
            assert outcome.problem.code in ("answer-off-list", "answer-unreadable")
            said["off-list"] += 1
            continue
        said[tokens[0]] += 1
        wanted = [
            sum(float(p) for p, token in zip(odds, tokens, strict=True) if token.upper() == letter)
            for letter in LETTERS
        ]
        assert outcome.unwrap().probabilities == pytest.approx(wanted, abs=NEAR)
        assert LETTERS[outcome.unwrap().top[0]] == tokens[0].upper()
    return said


def test_whole_labels_have_the_likelihoods_of_transformers(
    server: OpenAIServer, store: BlobStore, reference: Reference
) -> None:
    own = suite(answers="labels")
    text = Question.of(own, "labels", FEW).text
    for pixels, outcome in zip(noise(), asked(server, store, own, FEW), strict=True):
        logs = []
        for label in FEW:
            odds, ids = reference.logs(pixels, text, label)
            logs.append(sum(float(odds[at, token]) for at, token in enumerate(ids)))
        wanted = np.exp(np.array(logs) - max(logs))
        assert outcome.unwrap().probabilities == pytest.approx(wanted / wanted.sum(), abs=NEAR)


def test_a_constrained_choice_is_always_one_of_the_labels(server: OpenAIServer, store: BlobStore) -> None:
    labels = [*FEW, 'the "Big" boat', "Äpfel", "boats & sleds"]
    found = asked(server, store, suite(answers="choice", max_tokens=200), labels)
    assert all(outcome.unwrap().probabilities.count(1.0) == 1 for outcome in found)


def test_the_effect_of_the_order_of_a_random_model_is_measured(
    server: OpenAIServer, store: BlobStore
) -> None:
    classifiers = ChatClassifiers({"own": suite(answers="choice", max_tokens=200)}, lambda _: server, store)
    images = [store.put(encode_png(pixels)) for pixels in noise()]
    request = OrderEffectRequest(classifier="chat:own", images=images, classes=FEW, seed=1)
    found = order_effect(classifiers.of("chat:own"), request)
    assert (found.orders, found.changes.n, found.unanswered) == (3, IMAGES, 0)
