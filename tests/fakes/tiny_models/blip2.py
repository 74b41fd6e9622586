"""A tiny BLIP-2 folder."""

from __future__ import annotations

from pathlib import Path

from transformers import (
    Blip2Config,
    Blip2ForConditionalGeneration,
    Blip2Processor,
    Blip2QFormerConfig,
    Blip2VisionConfig,
    BlipImageProcessor,
    OPTConfig,
    T5Config,
)

from fakes.tiny_models.weights import randomised
from fakes.tiny_models.words import tiny_tokenizer

QUERIES = 4
SIDE = 16


def save_blip2(folder: Path, *, encoder: bool = False) -> None:
    """Save a random BLIP-2 with its processor: on OPT, or with ``encoder`` on Flan-T5."""
    images = BlipImageProcessor(size={"height": SIDE, "width": SIDE})
    processor = Blip2Processor(images, tiny_tokenizer(closing=encoder), num_query_tokens=QUERIES)
    language = _t5(processor) if encoder else _opt(processor)
    model = Blip2ForConditionalGeneration(_config(processor, language))
    randomised(model, spread=0.4)
    # Images must influence the words, or captions would not depend on them.
    randomised(model.vision_model, seed=1, spread=0.8)
    randomised(model.qformer, seed=2, spread=0.8)
    randomised(model.language_projection, seed=3, spread=1.0)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _opt(processor: Blip2Processor) -> OPTConfig:
    tokenizer = processor.tokenizer
    return OPTConfig(
        vocab_size=len(tokenizer), hidden_size=16, word_embed_proj_dim=16, ffn_dim=32, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=48, bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, tie_word_embeddings=False,
    )  # fmt: skip


def _t5(processor: Blip2Processor) -> T5Config:
    tokenizer = processor.tokenizer
    return T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
        feed_forward_proj="gated-gelu", eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id, decoder_start_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )  # fmt: skip


def _config(processor: Blip2Processor, language: OPTConfig | T5Config) -> Blip2Config:
    vision = Blip2VisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=SIDE,
        patch_size=8,
    )  # fmt: skip
    queries = Blip2QFormerConfig(
        vocab_size=8, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        encoder_hidden_size=16, cross_attention_frequency=1,
    )  # fmt: skip
    return Blip2Config(
        vision_config=vision.to_dict(), qformer_config=queries.to_dict(), text_config=language.to_dict(),
        num_query_tokens=QUERIES,
        image_token_index=processor.tokenizer.convert_tokens_to_ids(processor.image_token.content),
    )  # fmt: skip
