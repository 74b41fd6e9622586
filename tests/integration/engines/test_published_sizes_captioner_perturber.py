"""BLIP-2 OPT-2.7B and LLaMA-7B at their published sizes, built from configuration on the meta device."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
from peft import LoraConfig, get_peft_model
from transformers import (
    Blip2Config,
    Blip2ForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
)

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.suite import load_suite
from counterpose_services.captioner.engine import CaptionerEngine
from counterpose_services.perturber.finetune import PRESETS
from fakes.tiny_models.words import tiny_tokenizer

META = torch.device("meta")


def parameters(model: torch.nn.Module, part: str = "") -> int:
    return sum(tensor.numel() for name, tensor in model.named_parameters() if part in name)


@pytest.fixture(scope="module")
def blip2() -> Blip2ForConditionalGeneration:
    """``Salesforce/blip2-opt-2.7b``: EVA ViT-g/14, a Q-Former of 32 queries, OPT-2.7B."""
    config = Blip2Config(
        vision_config={
            "hidden_size": 1408, "intermediate_size": 6144, "num_hidden_layers": 39,
            "num_attention_heads": 16, "image_size": 224, "patch_size": 14,
        },
        qformer_config={
            "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
            "intermediate_size": 3072, "cross_attention_frequency": 2, "encoder_hidden_size": 1408,
        },
        text_config={
            "model_type": "opt", "vocab_size": 50304, "hidden_size": 2560, "word_embed_proj_dim": 2560,
            "ffn_dim": 10240, "num_hidden_layers": 32, "num_attention_heads": 32,
            "max_position_embeddings": 2048, "bos_token_id": 2, "eos_token_id": 50118, "pad_token_id": 1,
        },
        num_query_tokens=32,
        image_token_index=50265,
    )  # fmt: skip
    with META:
        return Blip2ForConditionalGeneration(config)


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    """``huggyllama/llama-7b``."""
    config = LlamaConfig(
        vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32,
        num_attention_heads=32, max_position_embeddings=2048,
    )  # fmt: skip
    with META:
        return LlamaForCausalLM(config)


@pytest.mark.paper("LANCE-T6-captioner")
def test_blip2_has_the_published_number_of_parameters(blip2: Blip2ForConditionalGeneration) -> None:
    assert parameters(blip2) == 3_744_761_856


def test_blip2_turns_257_patches_into_32_opt_embeddings(blip2: Blip2ForConditionalGeneration) -> None:
    with torch.inference_mode():
        seen = blip2.vision_model(pixel_values=torch.zeros(2, 3, 224, 224, device=META)).last_hidden_state
        spoken = blip2.language_projection(blip2.query_tokens)
    assert tuple(seen.shape) == (2, 257, 1408)
    assert tuple(spoken.shape) == (1, 32, 2560)
    assert tuple(blip2.get_input_embeddings().weight.shape) == (50304, 2560)


def test_the_engine_puts_32_image_tokens_before_a_blip2_prompt(
    blip2: Blip2ForConditionalGeneration, tmp_path: Path
) -> None:
    engine = CaptionerEngine(
        blip2,
        tiny_tokenizer(closing=False),
        lambda pixels: torch.from_numpy(pixels),
        identity=ModelIdentity(id="blip2", revision="published"),
        suite=load_suite("lance").captioner,
        store=BlobStore(str(tmp_path)),
    )
    prompt = engine._prompt("a photo of")
    assert prompt[:32] == [50265] * 32
    assert len(prompt) == 32 + 4
    assert engine._ends == {50118}
    assert engine._side.longest == 2048


@pytest.mark.paper("LANCE-T6-max-caption")
def test_lance_s_caption_limits_fit_blip2(blip2: Blip2ForConditionalGeneration) -> None:
    suite = load_suite("lance").captioner
    room = blip2.config.text_config.max_position_embeddings - blip2.config.num_query_tokens
    assert (suite.beams, suite.min_tokens, suite.max_tokens) == (5, 20, 100)
    assert suite.max_tokens < room


@pytest.mark.paper("LANCE-T6-llm")
def test_llama_has_the_published_number_of_parameters(llama: LlamaForCausalLM) -> None:
    assert parameters(llama) == 6_738_415_616


def test_llama_has_logits_for_32000_tokens(llama: LlamaForCausalLM) -> None:
    with torch.inference_mode():
        logits = llama(input_ids=torch.zeros(2, 7, dtype=torch.long, device=META)).logits
    assert tuple(logits.shape) == (2, 7, 32000)


@pytest.mark.paper("LANCE-T6-lora-weights")
def test_lance_s_adapter_covers_three_projections_of_every_layer() -> None:
    recipe = PRESETS["lance"]
    settings = LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        target_modules=list(recipe.target_modules),
        task_type="CAUSAL_LM",
    )
    layers = 2
    with META:
        model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers))
        adapted = get_peft_model(model, settings)
    hooked = [
        name for name, module in adapted.named_modules() if name.endswith(("q_proj", "k_proj", "v_proj"))
    ]
    wrapped = [name for name, module in adapted.named_modules() if hasattr(module, "lora_A")]
    assert sorted(wrapped) == sorted(hooked)
    assert len(wrapped) == 3 * layers
    # Rank 8 on three 4096 x 4096 matrices a layer; the whole of LLaMA-7B would have 6.3 M of them.
    assert parameters(adapted, "lora_") == layers * 3 * 2 * 8 * 4096


@pytest.mark.paper("LANCE-C-new-tokens")
def test_lance_s_answers_fit_llama_s_context(llama: LlamaForCausalLM) -> None:
    suite = load_suite("lance").perturber
    assert suite is not None
    assert suite.max_new_tokens == 400
    assert suite.max_new_tokens < llama.config.max_position_embeddings
