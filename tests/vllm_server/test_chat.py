"""An instruct model on vLLM answers every prompt within the schema."""

from __future__ import annotations

import itertools
import json

import pytest

from counterpose_core.contract.perturber import PerturbItem, PerturbRequest
from counterpose_core.suite import PerturberSuite
from counterpose_core.types import PerturbationType
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.perturber.language_model import Row, Written
from counterpose_services.perturber.openai_model import OpenAIModel
from fakes.tiny_models.chat import save_chat_llama
from vllm_server.conftest import Start

SUITE = PerturberSuite(model="chat", prompt="chat", max_new_tokens=400)
PROMPTS = 200
TYPES: tuple[PerturbationType, ...] = ("subject", "object", "background", "adjective", "domain")


@pytest.fixture(scope="module")
def engine(start: Start, tmp_path_factory: pytest.TempPathFactory) -> PerturberEngine:
    root = tmp_path_factory.mktemp("models")
    save_chat_llama(root / "chat")
    return start(SUITE, root)


def test_every_answer_to_two_hundred_prompts_keeps_the_schema(engine: PerturberEngine) -> None:
    """Random weights say anything that they may: only the server's grammar makes it a list of texts."""
    model = engine._model
    assert isinstance(model, OpenAIModel)
    things = (
        f"a photo of {number} {thing}" for number in range(100) for thing in ("dogs", 'a "bus"', "Äpfel")
    )
    rows = [
        Row(model.prompt(asked, caption), seed, 0)
        for seed, caption in enumerate(itertools.islice(things, PROMPTS))
        for asked in engine._prompts.asked("chat", TYPES[seed % len(TYPES)], caption)[:1]
    ]
    answers = model.write(rows)
    written = [answer for answer in answers if isinstance(answer, Written)]
    assert len(written) == PROMPTS
    parsed = [json.loads(answer.text) for answer in written]
    assert [one["captions"] for one in parsed] == [list(answer.captions or ()) for answer in written]
    assert all(one["captions"] for one in parsed)
    assert len({answer.text for answer in written}) > PROMPTS / 2


def test_the_engine_reads_the_captions_of_the_list(engine: PerturberEngine) -> None:
    items = [
        PerturbItem(caption=f"a photo of {count} dogs", perturbation_type="object", n=3, seed=count)
        for count in range(8)
    ]
    found = [outcome.unwrap() for outcome in engine.perturb(PerturbRequest(items=items)).outcomes]
    assert sum(len(one.edits) for one in found) > len(items)
