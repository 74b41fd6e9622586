"""A tiny LLaMA folder with a LoRA adapter inside."""

from __future__ import annotations

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from fakes.tiny_models.weights import randomised
from fakes.tiny_models.words import tiny_tokenizer


def save_llama(folder: Path, *, positions: int = 64, width: int = 32) -> None:
    """Save a random LLaMA, its tokenizer, and a random adapter on q, k and v in ``adapter/``."""
    tokenizer = tiny_tokenizer(closing=False)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=width, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=positions,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    randomised(model)
    _make_ends_likely(model, tokenizer.eos_token_id)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    lora = LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "k_proj", "v_proj"], task_type="CAUSAL_LM")
    adapted = get_peft_model(model, lora)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            parameter.data.normal_(generator=generator)
    adapted.peft_config["default"].base_model_name_or_path = ""
    adapted.save_pretrained(str(folder / "adapter"))


def _make_ends_likely(model: LlamaForCausalLM, end: int) -> None:
    """Make about every fourth token the end, or answers would never finish."""
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 2.0
        model.model.norm.weight[0] = 1.0
        model.lm_head.weight[:, 0] = 0.0
        model.lm_head.weight[end, 0] = 0.6


def load_llama(folder: Path) -> LlamaForCausalLM:
    """Load the base that `save_llama` saved."""
    return LlamaForCausalLM.from_pretrained(folder).eval()
