"""A tiny BLIP-2 that chats about images: bytes as tokens, a template, and random weights."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import (
    Blip2Config,
    Blip2ForConditionalGeneration,
    Blip2Processor,
    Blip2QFormerConfig,
    Blip2VisionConfig,
    BlipImageProcessor,
    OPTConfig,
)

from fakes.tiny_models.chat import byte_tokenizer
from fakes.tiny_models.weights import randomised

SIDE, PATCH, QUERIES = 28, 14, 4
# vLLM's attention on a CPU takes heads of 32 numbers, but not of 16.
WIDTH, HEADS = 64, 2
POSITIONS = 1024


def seeing_processor() -> Blip2Processor:
    """Return the processor of images and text; vLLM puts the image's places before the text by itself."""
    images = BlipImageProcessor(size={"height": SIDE, "width": SIDE})
    return Blip2Processor(images, byte_tokenizer(), num_query_tokens=QUERIES)


def save_seeing(folder: Path) -> None:
    """Save a random BLIP-2 on OPT with its processor and a chat template."""
    processor = seeing_processor()
    tokenizer = processor.tokenizer
    vision = Blip2VisionConfig(
        hidden_size=WIDTH, intermediate_size=WIDTH, num_hidden_layers=1, num_attention_heads=HEADS,
        image_size=SIDE, patch_size=PATCH,
    )  # fmt: skip
    queries = Blip2QFormerConfig(
        vocab_size=8, hidden_size=WIDTH, intermediate_size=WIDTH, num_hidden_layers=1,
        num_attention_heads=HEADS, encoder_hidden_size=WIDTH, cross_attention_frequency=1,
    )  # fmt: skip
    language = OPTConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, word_embed_proj_dim=WIDTH, ffn_dim=WIDTH,
        num_hidden_layers=2, num_attention_heads=HEADS, max_position_embeddings=POSITIONS,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id, tie_word_embeddings=False,
    )  # fmt: skip
    model = Blip2ForConditionalGeneration(
        Blip2Config(
            vision_config=vision.to_dict(), qformer_config=queries.to_dict(), text_config=language.to_dict(),
            num_query_tokens=QUERIES,
            image_token_index=tokenizer.convert_tokens_to_ids(processor.image_token.content),
        )
    )  # fmt: skip
    randomised(model, spread=0.4)
    randomised(model.language_model, seed=4, spread=1.0)
    randomised(model.vision_model, seed=1, spread=0.8)
    randomised(model.qformer, seed=2, spread=0.8)
    randomised(model.language_projection, seed=3, spread=1.0)
    _make_letters_likely(
        model, tokenizer.convert_tokens_to_ids([chr(letter) for letter in range(ord("a"), ord("z") + 1)])
    )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _make_letters_likely(model: Blip2ForConditionalGeneration, letters: list[int]) -> None:
    """Let it write letters: other bytes may be no text at all."""
    head, norm = model.language_model.lm_head, model.language_model.model.decoder.final_layer_norm
    with torch.no_grad():
        norm.bias[0] = 8.0
        head.weight[:, 0] = 0.0
        head.weight[letters, 0] = 8.0
