"""A tiny LLaMA that chats: bytes as tokens, a template, and weights that soon end a JSON list."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from fakes.tiny_models.weights import randomised

SPECIAL = ("<pad>", "<bos>", "<eos>", "<user>", "<assistant>")
TEMPLATE = (
    "<bos>{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
POSITIONS = 4096
# What a random model would hardly ever say by itself: that a text, and the list of texts, is over.
ENDS = {'"': 0.6, "]": 0.8, "}": 0.8, "<eos>": 0.8}


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for each byte, and the marks of a chat."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {token: index for index, token in enumerate((*SPECIAL, *alphabet))}
    tokenizer = Tokenizer(BPE(ids, [], unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=POSITIONS,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        additional_special_tokens=["<user>", "<assistant>"],
        chat_template=TEMPLATE,
    )


def save_chat_llama(folder: Path) -> None:
    """Save a random LLaMA with its tokenizer and chat template."""
    tokenizer = byte_tokenizer()
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=64, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=POSITIONS,
            bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )  # fmt: skip
    randomised(model)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 2.0
        model.model.norm.weight[0] = 1.0
        model.lm_head.weight[:, 0] = 0.0
        for token, boost in ENDS.items():
            model.lm_head.weight[tokenizer.convert_tokens_to_ids(token), 0] = boost
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
