"""A captioner on vLLM says what transformers says, with the same likelihood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Blip2ForConditionalGeneration

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.captioner import (
    CaptionItem,
    CaptionRequest,
    LogLikelihoodItem,
    LogLikelihoodRequest,
)
from counterpose_core.images.codecs import encode_png
from counterpose_core.suite import CaptionerSuite
from counterpose_services.captioner.openai_engine import OpenAICaptioner
from counterpose_services.captioner.served import load_served
from counterpose_services.captioner.wording import joined
from counterpose_services.settings import ServiceSettings
from fakes.tiny_models.seeing import QUERIES, save_seeing, seeing_processor
from vllm_server.conftest import ARGUMENTS, PROGRAM

SUITE = CaptionerSuite(
    model="seeing",
    engine="vllm",
    beams=1,
    min_tokens=4,
    max_tokens=12,
    text_limit=100,
    labelled_prefix="a {label}",
)
NEAR = 1e-3
"""Of two implementations of one network in float32, over a whole text."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_seeing(folder / "seeing")
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> BlobStore:
    return BlobStore(str(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def captioner(
    root: Path, store: BlobStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenAICaptioner]:
    if not PROGRAM.exists():
        pytest.skip("there is no vLLM; `make test-vllm` installs it")
    settings = ServiceSettings.model_validate(
        {
            "state_dir": tmp_path_factory.mktemp("state"),
            "suite_root": root,
            "vllm": PROGRAM,
            "vllm_arguments": ARGUMENTS,
        }
    )
    engine = load_served(SUITE, settings, store)
    yield engine
    engine._server.close()


class Reference:
    """The same network in transformers; the image's places come before the text, as in vLLM."""

    def __init__(self, folder: Path) -> None:
        self._model = Blip2ForConditionalGeneration.from_pretrained(folder).eval()
        self._processor = seeing_processor()

    def _inputs(self, pixels: np.ndarray, begun: str) -> dict[str, torch.Tensor]:
        tokenizer = self._processor.tokenizer
        place = tokenizer.convert_tokens_to_ids(self._processor.image_token.content)
        said = tokenizer(f"<bos><user>{SUITE.instruction}<assistant>{begun}", add_special_tokens=False)
        ids = torch.tensor([[place] * QUERIES + said["input_ids"]])
        seen = self._processor.image_processor(images=Image.fromarray(pixels), return_tensors="pt")
        return {
            "input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": seen["pixel_values"]
        }  # fmt: skip

    def caption(self, pixels: np.ndarray, prefix: str) -> str:
        inputs = self._inputs(pixels, prefix)
        with torch.inference_mode():
            made = self._model.generate(
                **inputs, do_sample=False, min_new_tokens=SUITE.min_tokens, max_new_tokens=SUITE.max_tokens
            )
        new = made[0, inputs["input_ids"].shape[1] :]
        return str(self._processor.tokenizer.decode(new, skip_special_tokens=True))

    def likelihood(self, pixels: np.ndarray, prefix: str, text: str) -> tuple[float, int]:
        before = self._inputs(pixels, prefix)["input_ids"].shape[1]
        whole = self._inputs(pixels, prefix + text)
        ids = whole["input_ids"][0]
        with torch.inference_mode():
            odds = self._model(**whole).logits[0].log_softmax(-1)
        return float(sum(odds[at - 1, ids[at]] for at in range(before, len(ids)))), len(ids) - before


@pytest.fixture(scope="module")
def reference(root: Path) -> Reference:
    return Reference(root / "seeing")


def noise(n: int) -> Sequence[np.ndarray]:
    draws = np.random.default_rng(7)
    return [draws.integers(0, 256, (28, 28, 3), dtype=np.uint8) for _ in range(n)]


def test_captions_are_those_of_transformers(
    captioner: OpenAICaptioner, reference: Reference, store: BlobStore
) -> None:
    seen = noise(8)
    labels = [None, *["boat"] * 7]
    items = [
        CaptionItem(image=store.put(encode_png(pixels)), label=label)
        for pixels, label in zip(seen, labels, strict=True)
    ]
    found = [outcome.unwrap().text for outcome in captioner.caption(CaptionRequest(items=items)).outcomes]
    prefixes = ["" if label is None else f"a {label}" for label in labels]
    wanted = [
        joined(prefix, reference.caption(pixels, prefix).strip())
        for pixels, prefix in zip(seen, prefixes, strict=True)
    ]
    assert found == wanted
    assert len(set(found)) > len(found) / 2


def test_likelihoods_are_those_of_transformers(
    captioner: OpenAICaptioner, reference: Reference, store: BlobStore
) -> None:
    seen, texts = noise(6), ["boat on the sea", "zebra", "bus"] * 2
    items = [
        LogLikelihoodItem(image=store.put(encode_png(pixels)), text=text, prefix="a")
        for pixels, text in zip(seen, texts, strict=True)
    ]
    answer = captioner.log_likelihood(LogLikelihoodRequest(items=items))
    found = [outcome.unwrap() for outcome in answer.outcomes]
    wanted = [reference.likelihood(pixels, "a", f" {text}") for pixels, text in zip(seen, texts, strict=True)]
    assert [one.tokens for one in found] == [tokens for _, tokens in wanted]
    assert [one.total for one in found] == pytest.approx([total for total, _ in wanted], rel=NEAR)
    assert len({round(one.total, 3) for one in found}) == len(found)
