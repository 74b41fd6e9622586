"""Fine-tuning a tiny LLaMA: the paper's preset, what is learned, what is saved, and resumption."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from counterpose_core.errors import InvalidRequest, ModelFormatRefused
from counterpose_services.perturber.finetune import (
    PRESETS,
    FinetuneRecipe,
    Finetuning,
    examples_of,
    finetune,
    main,
)
from counterpose_services.perturber.pairs import CaptionPair, append_pairs
from evaluation.reference.same_answers import FLOAT32

pytestmark = pytest.mark.floats

VOCABULARY = "<pad> <s> </s> <unk> adjective : = > a red blue green white boat plate on the water"
WORDS = VOCABULARY.split(" ")
QUICK = FinetuneRecipe(
    batch=4, accumulation=2, micro_steps=8, max_length=64, prompt="compact", learning_rate=1e-2
)


def pair(caption: str, edited: str, instruction: str = "adjective") -> CaptionPair:
    return CaptionPair(
        instruction=instruction, perturbation_type="adjective", caption=caption, edited_caption=edited
    )


PAIRS = [
    pair(f"a {old} {thing} on the water", f"a {new} {thing} on the water")
    for old, new in (("red", "blue"), ("blue", "green"), ("green", "white"))
    for thing in ("boat", "plate")
]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def adapter(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(folder / "adapter_model.safetensors"))


@pytest.mark.paper(
    "LANCE-T6-learning-rate",
    "LANCE-T6-batch",
    "LANCE-T6-accumulation",
    "LANCE-T6-weight-decay",
    "LANCE-T6-sequence",
    "LANCE-T6-lora-rank",
    "LANCE-T6-lora-alpha",
    "LANCE-T6-lora-dropout",
    "LANCE-T6-lora-weights",
    "LANCE-S4.1-steps",
)
def test_the_lance_preset_matches_table_6_of_the_paper() -> None:
    lance = PRESETS["lance"]
    assert (lance.rank, lance.alpha, lance.dropout) == (8, 16, 0.05)
    assert lance.target_modules == ("q_proj", "k_proj", "v_proj")
    assert (lance.learning_rate, lance.weight_decay, lance.max_length) == (3e-4, 0.0, 1024)
    assert (lance.batch, lance.accumulation, lance.micro_batch, lance.micro_steps) == (128, 32, 4, 37_500)
    assert lance.prompt == "instruction"


def test_an_indivisible_batch_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="100"):
        replace(QUICK, batch=100, accumulation=32)


@pytest.mark.paper("LANCE-S3.1-finetune")
def test_finetuning_lowers_the_loss_and_saves_an_adapter_for_the_unchanged_base(
    llama: Path, tmp_path: Path
) -> None:
    base_before = dict(load_file(llama / "model.safetensors"))
    first = finetune(llama, PAIRS, tmp_path / "a", replace(QUICK, micro_steps=2), seed=0)
    last = finetune(llama, PAIRS, tmp_path / "b", replace(QUICK, micro_steps=24), seed=0)
    assert last < first
    base = AutoModelForCausalLM.from_pretrained(llama)
    ids = torch.tensor([[1, 4, 5, 8]])
    plain = base(input_ids=ids).logits
    tuned = PeftModel.from_pretrained(base, str(tmp_path / "b"))(input_ids=ids).logits
    assert not torch.allclose(plain, tuned)
    assert all(
        torch.equal(value, base_before[name])
        for name, value in load_file(llama / "model.safetensors").items()
    )


@pytest.mark.paper("LANCE-S3.1-lora")
def test_only_low_rank_matrices_on_query_key_and_value_are_saved(llama: Path, tmp_path: Path) -> None:
    finetune(llama, PAIRS, tmp_path, replace(QUICK, micro_steps=2), seed=0)
    names = {name.split(".self_attn.")[1].removesuffix(".weight") for name in adapter(tmp_path)}
    assert names == {f"{which}_proj.lora_{side}" for which in "qkv" for side in "AB"}
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (settings["r"], settings["lora_alpha"], settings["lora_dropout"]) == (8, 16, 0.05)


def test_a_resumed_run_ends_in_the_same_adapter(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finetune(llama, PAIRS, tmp_path / "whole", QUICK, seed=5)
    update, done = Finetuning.update, 0

    def killed(run: Finetuning) -> float:
        nonlocal done
        done += 1
        if done == 3:
            raise KeyboardInterrupt
        return update(run)

    monkeypatch.setattr(Finetuning, "update", killed)
    with pytest.raises(KeyboardInterrupt):
        finetune(llama, PAIRS, tmp_path / "broken", QUICK, seed=5, checkpoint_every=1)
    finetune(llama, PAIRS, tmp_path / "broken", QUICK, seed=5, checkpoint_every=1)
    whole, broken = adapter(tmp_path / "whole"), adapter(tmp_path / "broken")
    assert done == 5
    assert all(torch.allclose(whole[name], broken[name], atol=FLOAT32) for name in whole)


def test_adapters_are_equal_only_for_equal_seeds(llama: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        finetune(llama, PAIRS, tmp_path / name, replace(QUICK, micro_steps=2), seed=seed)
    a, b, c = (adapter(tmp_path / name) for name in "abc")
    assert all(torch.allclose(a[name], b[name], atol=FLOAT32) for name in a)
    assert any(not torch.allclose(a[name], c[name], atol=FLOAT32) for name in a)


def test_the_loss_counts_the_answer_and_its_end_but_not_the_prompt(llama: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(llama)
    (example,) = examples_of([PAIRS[0]], tokenizer, QUICK)
    counted = [token for token, label in zip(example.ids, example.labels, strict=True) if label != -100]
    assert tokenizer.decode(counted) == "a blue boat on the water </s>"


def test_all_edits_of_a_caption_form_one_answer_under_the_instruction_prompt(llama: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(llama)
    pairs = [
        pair("a red boat", "a blue boat"),
        pair("a red boat", "a green boat"),
        pair("a plate", "a red plate"),
    ]
    first, second = examples_of(pairs, tokenizer, replace(QUICK, prompt="instruction", max_length=1024))
    said = [token for token, label in zip(first.ids, first.labels, strict=True) if label != -100]
    assert tokenizer.decode(said) == "a blue boat a green boat </s>"
    assert second.ids != first.ids


def test_examples_are_cut_at_the_maximum_length(llama: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(llama)
    (example,) = examples_of([PAIRS[0]], tokenizer, replace(QUICK, max_length=5))
    assert len(example.ids) == len(example.labels) == 5


def test_an_error_names_the_unknown_instruction(llama: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(llama)
    with pytest.raises(InvalidRequest, match="'colour'"):
        examples_of([pair("a boat", "a plate", "colour")], tokenizer, replace(QUICK, prompt="instruction"))


def test_missing_pairs_and_missing_safetensors_are_refused(llama: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no caption pairs"):
        finetune(llama, [], tmp_path, QUICK, seed=0)
    with pytest.raises(ModelFormatRefused):
        finetune(tmp_path, PAIRS, tmp_path / "out", QUICK, seed=0)


def test_the_command_takes_a_preset_and_reports_the_result(llama: Path, tmp_path: Path) -> None:
    append_pairs(tmp_path / "pairs.jsonl", PAIRS)
    where = ["--model", str(llama), "--pairs", str(tmp_path / "pairs.jsonl"), "--out", str(tmp_path / "out")]
    main([*where, "--preset", "lance", "--micro-steps", "2", "--accumulation", "2", "--prompt", "compact"])
    about = json.loads((tmp_path / "out" / "finetune.json").read_text())
    assert about["recipe"]["batch"] == 128
    assert about["recipe"]["micro_steps"] == 2
    assert (about["pairs"], about["seed"]) == (6, 0)
    assert adapter(tmp_path / "out")
