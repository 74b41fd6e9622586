"""Tiny BERT folders: a masked language model and a sentence encoder."""

from __future__ import annotations

from pathlib import Path

from transformers import BertConfig, BertForMaskedLM, BertModel

from fakes.tiny_models.weights import randomised
from fakes.tiny_models.words import tiny_tokenizer


def save_masked_lm(folder: Path) -> None:
    """Save a random masked language model with its tokenizer."""
    tokenizer = tiny_tokenizer()
    randomised(BertForMaskedLM(_config(len(tokenizer)))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_sentence_encoder(folder: Path) -> None:
    """Save a random encoder with its tokenizer."""
    tokenizer = tiny_tokenizer()
    randomised(BertModel(_config(len(tokenizer)), add_pooling_layer=False)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _config(vocabulary: int) -> BertConfig:
    return BertConfig(
        vocab_size=vocabulary, hidden_size=24, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=20, pad_token_id=0,
    )  # fmt: skip
