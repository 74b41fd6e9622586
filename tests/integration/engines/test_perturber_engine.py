"""The perturber on a tiny random LLaMA with a LoRA adapter saved by transformers and peft."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.perturber import (
    LikelihoodsRequest,
    Perturbations,
    PerturbItem,
    PerturbRequest,
    TextLikelihood,
)
from counterpose_core.errors import CounterposeError, ModelFormatRefused
from counterpose_core.suite import PerturberSuite
from counterpose_core.text.caption_diff import difference
from counterpose_services.perturber import prompts
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.perturber.language_model import Messages, Prompt, Row, Sampling, Written
from counterpose_services.perturber.prompts import Instruction, Prompts
from counterpose_services.perturber.proposals import Proposals
from counterpose_services.perturber.sampling import sample
from counterpose_services.perturber.transformers_model import TransformersModel
from evaluation.reference.same_answers import FLOAT32
from fakes.tiny_models.llama import load_llama, save_llama
from fakes.tiny_models.words import tiny_tokenizer

pytestmark = pytest.mark.floats

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SUITE = PerturberSuite(
    model="perturber", adapter="perturber/adapter", max_new_tokens=8, prompt="compact", batch=5
)


@pytest.fixture(scope="module")
def root(models: Path) -> Path:
    save_llama(models / "perturber")
    return models


@pytest.fixture(scope="module")
def engine(root: Path) -> PerturberEngine:
    return PerturberEngine.load(SUITE, root)


@pytest.fixture(scope="module")
def base(root: Path) -> PreTrainedModel:
    return load_llama(root / "perturber")


def item(seed: int, caption: str = "a red boat on the sea", n: int = 3) -> PerturbItem:
    return PerturbItem(caption=caption, perturbation_type="adjective", n=n, seed=seed)


def ask(engine: PerturberEngine, *items: PerturbItem) -> list[Perturbations]:
    return [outcome.unwrap() for outcome in engine.perturb(PerturbRequest(items=list(items))).outcomes]


def code_of(outcome: Outcome[Any]) -> str | None:
    return None if outcome.problem is None else outcome.problem.code


@pytest.mark.paper("LANCE-A1-10-propose")
def test_edits_are_distinct_and_report_their_exact_difference(engine: PerturberEngine) -> None:
    (found,) = ask(engine, item(1))
    texts = [edit.edited_caption for edit in found.edits]
    assert len(texts) == len(set(texts)) > 0
    for edit in found.edits:
        expected = difference("a red boat on the sea", edit.edited_caption)
        assert [tuple(span.words) for span in edit.removed] == [span.words for span in expected.removed]
        assert [span.start for span in edit.added] == [span.start for span in expected.added]


@pytest.mark.paper("LANCE-D-seeds")
def test_equal_seeds_give_equal_answers_in_any_batch(engine: PerturberEngine) -> None:
    (alone,) = ask(engine, item(7))
    shared = ask(engine, item(3, caption="the tram at night in snow with dogs"), item(7), item(8))
    assert shared[1] == alone
    assert shared[2] != alone


def test_different_seeds_give_different_answers(engine: PerturberEngine) -> None:
    answers = ask(engine, *(item(seed) for seed in range(4)))
    assert len({tuple(edit.edited_caption for edit in one.edits) for one in answers}) > 1


def test_dropped_proposals_are_counted(engine: PerturberEngine) -> None:
    answers = ask(engine, *(item(seed, n=8) for seed in range(6)))
    reasons = {reason for one in answers for reason in one.dropped}
    assert "unfinished" in reasons
    assert reasons <= {"empty", "echo", "duplicate", "unfinished", "unreadable"}
    assert all(one.edits or one.dropped for one in answers)


def test_the_adapter_changes_the_answers(root: Path, engine: PerturberEngine) -> None:
    plain = PerturberEngine.load(SUITE.model_copy(update={"adapter": None}), root)
    items = [item(seed) for seed in range(4)]
    assert ask(plain, *items) != ask(engine, *items)
    assert plain.identity.revision != engine.identity.revision


def weigh(engine: PerturberEngine, *texts: str) -> list[TextLikelihood]:
    return [
        outcome.unwrap() for outcome in engine.likelihoods(LikelihoodsRequest(texts=list(texts))).outcomes
    ]


@pytest.mark.paper("LANCE-S4.1-perplexity")
def test_the_likelihood_of_a_text_comes_from_the_base_model(
    engine: PerturberEngine, base: PreTrainedModel
) -> None:
    (found,) = weigh(engine, "a red boat on the sea")
    ids = tiny_tokenizer(closing=False)("a red boat on the sea")["input_ids"]
    with torch.inference_mode():
        odds = base(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    expected = sum(float(odds[place, token]) for place, token in enumerate(ids[1:]))
    assert found.tokens == 6
    assert found.nats == pytest.approx(expected, rel=1e-5)


def test_scoring_texts_keeps_the_adapter_attached(engine: PerturberEngine) -> None:
    before = ask(engine, item(7))
    weigh(engine, "a red boat on the sea")
    assert ask(engine, item(7)) == before


def test_likelihoods_are_attributed_to_the_base_model(root: Path, engine: PerturberEngine) -> None:
    plain = PerturberEngine.load(SUITE.model_copy(update={"adapter": None}), root)
    request = LikelihoodsRequest(texts=["a red boat"])
    assert engine.likelihoods(request).model == plain.identity
    (adapted,), (base,) = weigh(engine, "a red boat"), weigh(plain, "a red boat")
    assert adapted.nats == pytest.approx(base.nats, rel=FLOAT32)


def test_a_text_with_unknown_or_too_many_words_does_not_affect_others(engine: PerturberEngine) -> None:
    request = LikelihoodsRequest(texts=["a zeppelin", "red " * 70, "a boat"])
    unknown, long, good = engine.likelihoods(request).outcomes
    assert (code_of(unknown), code_of(long)) == ("invalid-request", "prompt-too-long")
    assert good.value is not None


def test_a_caption_with_unknown_words_does_not_affect_others(engine: PerturberEngine) -> None:
    request = PerturbRequest(items=[item(1, caption="a zeppelin"), item(1)])
    first, second = engine.perturb(request).outcomes
    assert code_of(first) == "invalid-request"
    assert second.value is not None


@pytest.mark.fault("B30")
@pytest.mark.parametrize("mark", ["</s>", "<s>", "=>"])
def test_a_caption_with_prompt_markers_does_not_affect_others(engine: PerturberEngine, mark: str) -> None:
    items = [item(1, caption=f"a red boat {mark} on the sea"), item(2)]
    found = engine.perturb(PerturbRequest(items=items)).outcomes
    assert [code_of(outcome) for outcome in found] == ["invalid-request", None]


def test_a_caption_that_leaves_no_room_for_the_answer_is_refused(engine: PerturberEngine) -> None:
    (outcome,) = engine.perturb(PerturbRequest(items=[item(1, caption="red " * 60)])).outcomes
    assert code_of(outcome) == "prompt-too-long"


CHAT_TEMPLATE = (
    "{% for message in messages %}{{ 'the ' if message.role == 'user' else 'a ' }}{{ message.content }} "
    "{% endfor %}{% if add_generation_prompt %}=>{% endif %}"
)
WORDS = Prompts({"adjective": (Instruction("red", "adjective", "red", (("a boat", "a red boat"),)),)})


def chatting(root: Path, template: str | None) -> PerturberEngine:
    suite = SUITE.model_copy(update={"prompt": "chat", "max_new_tokens": 16})
    save_llama(root / "perturber", positions=96)
    tokenizer = tiny_tokenizer(closing=False)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(root / "perturber")
    return PerturberEngine.load(suite, root)


def test_an_instruct_model_is_asked_by_its_chat_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = chatting(tmp_path, CHAT_TEMPLATE)
    # Our own task has words that the tiny vocabulary lacks.
    monkeypatch.setattr(prompts, "_CHAT_TASK", "{task} {caption}")
    monkeypatch.setattr(prompts, "_CHAT_CAPTION", "{caption}")
    asked: list[Row] = []
    write = engine._model.write

    def noted(rows: Sequence[Row]) -> list[Written | CounterposeError]:
        asked.extend(rows)
        return write(rows)

    monkeypatch.setattr(engine._model, "write", noted)
    engine._prompts = WORDS
    ask(engine, item(3, caption="the tram"))
    text = tiny_tokenizer(closing=False).decode(asked[0].prompt)
    assert text == "the red a boat a a red boat the the tram =>"


def test_a_base_without_chat_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatRefused, match="'perturber' has no chat template"):
        chatting(tmp_path, None)


@pytest.mark.fault("B44", "T15")
def test_a_pickled_adapter_is_refused(tmp_path: Path) -> None:
    save_llama(tmp_path / "perturber")
    adapter = tmp_path / "perturber" / "adapter"
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(ModelFormatRefused, match="adapter"):
        PerturberEngine.load(SUITE, tmp_path)


def changed_rank(adapter: Path) -> None:
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | {"r": 16}), encoding="utf-8")


def another_kind(adapter: Path) -> None:
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps({"peft_type": "PREFIX_TUNING"}), encoding="utf-8")


def no_configuration(adapter: Path) -> None:
    (adapter / "adapter_config.json").write_text("{", encoding="utf-8")


def another_layout(adapter: Path) -> None:
    save_file(
        {"transformer.h.0.attn.c_attn.lora_A": torch.zeros(4, 32)}, adapter / "adapter_model.safetensors"
    )


def a_wider_base(adapter: Path) -> None:
    save_llama(adapter.parent.parent / "wide", width=48)
    shutil.copytree(adapter.parent.parent / "wide" / "adapter", adapter, dirs_exist_ok=True)


def a_deeper_base(adapter: Path) -> None:
    file = adapter / "adapter_model.safetensors"
    save_file({name.replace("layers.1", "layers.7"): each for name, each in load_file(file).items()}, file)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (changed_rank, r"rank 2 in 'model\.layers\.0\.\S+' and 16 in its adapter_config"),
        (another_kind, "is 'PREFIX_TUNING', not 'LORA'"),
        (no_configuration, "has no readable adapter_config"),
        (another_layout, "holds 'transformer.h.0.attn.c_attn.lora_A' .*convert_adapter"),
        (a_wider_base, "changes a matrix of 48 x 48 .* and that of 'perturber' is 32 x 32"),
        (a_deeper_base, r"changes 'model\.layers\.7\.\S+', which 'perturber' does not have"),
    ],
)
def test_an_adapter_that_does_not_fit_its_base_is_refused_in_one_sentence(
    spoil: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    save_llama(tmp_path / "perturber")
    spoil(tmp_path / "perturber" / "adapter")
    with pytest.raises(ModelFormatRefused, match=told):
        PerturberEngine.load(SUITE, tmp_path)


def test_samples_follow_the_model_s_probabilities(base: PreTrainedModel) -> None:
    prompt = [1, 5, 7]
    with torch.inference_mode():
        wanted = base(input_ids=torch.tensor([prompt])).logits[0, -1].softmax(-1)
        rows = [Row(prompt, seed, 0) for seed in range(3000)]
        first = [new[0] for new in sample(base, rows, Sampling(1.0, 0, 1), pad=0, ends={3})]
    share = torch.bincount(torch.tensor(first), minlength=len(wanted)) / len(first)
    # Three standard deviations of the most uncertain share.
    assert float((share - wanted).abs().max()) < 3 * math.sqrt(0.25 / len(first))


def test_sampling_with_a_cache_equals_sampling_without(base: PreTrainedModel) -> None:
    """Greedy in effect: at a vanishing temperature the cached loop must follow the arg-max path."""
    prompts = [[1, 5, 7, 9], [1, 6]]
    with torch.inference_mode():
        made = sample(base, [Row(prompt, 0, 0) for prompt in prompts], Sampling(1e-4, 0, 6), pad=0, ends={-1})
        for prompt, new in zip(prompts, made, strict=True):
            ids = list(prompt)
            for token in new:
                assert int(base(input_ids=torch.tensor([ids])).logits[0, -1].argmax()) == token
                ids.append(token)


def test_only_the_top_k_tokens_are_sampled(base: PreTrainedModel) -> None:
    prompt = [1, 5]
    with torch.inference_mode():
        best = set(base(input_ids=torch.tensor([prompt])).logits[0, -1].topk(2).indices.tolist())
        rows = [Row(prompt, seed, 0) for seed in range(200)]
        drawn = {new[0] for new in sample(base, rows, Sampling(1.0, 2, 1), pad=0, ends={3})}
    assert drawn == best


def test_proposals_keep_their_order_and_count_drops_by_reason() -> None:
    proposals = Proposals("a red boat", wanted=2)
    for edited in ("", "A red boat.", "a blue boat", "a blue boat!", "a green boat", "a boat"):
        proposals.take(edited)
    answer = proposals.answer()
    assert [edit.edited_caption for edit in answer.edits] == ["a blue boat", "a green boat"]
    assert answer.dropped == {"empty": 1, "echo": 1, "duplicate": 1}


class Lister:
    """A language model that answers every prompt with the same list."""

    identity = base_identity = ModelIdentity(id="lister", revision="0" * 64)

    def prompt(self, asked: str | Messages, caption: str) -> Prompt:
        return asked

    def write(self, rows: Sequence[Row]) -> list[Written | CounterposeError]:
        text = "1. a blue boat\n2. a green boat\n### Caption: other\n3. a tram"
        return [Written(text, finished=False) for _ in rows]

    def weigh(self, texts: Sequence[str]) -> list[Outcome[TextLikelihood]]:
        return []


def test_instruction_prompts_parse_a_list_of_variations() -> None:
    (found,) = ask(PerturberEngine(Lister(), style="instruction"), item(1, caption="a red boat"))
    assert [edit.edited_caption for edit in found.edits] == ["a blue boat", "a green boat"]


def test_a_row_that_has_ended_is_not_computed_again(
    base: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    forward = base.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        sizes.append(len(kwargs["input_ids"]))
        return forward(*args, **kwargs)

    monkeypatch.setattr(base, "forward", counted)
    rows = [Row([1, 5, 7], seed, 0) for seed in range(12)]
    ends = set(range(0, base.config.vocab_size, 3))
    with torch.inference_mode():
        together = sample(base, rows, Sampling(1.0, 0, 6), pad=0, ends=ends)
        computed = sum(sizes)
        alone = [sample(base, [row], Sampling(1.0, 0, 6), pad=0, ends=ends)[0] for row in rows]
    assert together == alone
    # A row's last token is drawn, not read.
    assert computed == sum(len(new) for new in together) < 12 * len(sizes)


def test_the_engine_holds_each_matrix_once(root: Path, base: PreTrainedModel) -> None:
    """A merged adapter would need the base's matrices a second time, for likelihoods."""
    adapter = load_file(root / "perturber" / "adapter" / "adapter_model.safetensors")
    whole = TransformersModel.load(SUITE, root, device="cpu", dtype="float32")._model
    held = sum(each.numel() for each in whole.parameters())
    assert held == sum(each.numel() for each in base.parameters()) + sum(map(torch.numel, adapter.values()))
