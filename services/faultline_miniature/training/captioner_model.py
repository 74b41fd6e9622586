"""The small BLIP-2's shape and its processor."""

from __future__ import annotations

# Before anything that imports torchvision.
from faultline_core import torchvision_operators  # noqa: F401

# isort: split
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

from faultline_miniature.training.publishing import caption_tokenizer

QUERIES = 8
WIDTH = 128
_SIDE = 64


def build_processor() -> Blip2Processor:
    """Return the processor: images to 64 pixels in -1..1, words to ids behind `<bos>`."""
    images = BlipImageProcessor(
        size={"height": _SIDE, "width": _SIDE}, image_mean=[0.5] * 3, image_std=[0.5] * 3, do_convert_rgb=True
    )
    return Blip2Processor(images, caption_tokenizer(closing=False, max_length=64), num_query_tokens=QUERIES)


def build_model(processor: Blip2Processor) -> Blip2ForConditionalGeneration:
    """Return an untrained BLIP-2 of about 1.2 million parameters that fits the processor's vocabulary."""
    tokenizer = processor.tokenizer
    config = Blip2Config(
        vision_config=_vision().to_dict(),
        qformer_config=_queries().to_dict(),
        text_config=_language(len(tokenizer), tokenizer.bos_token_id, tokenizer.eos_token_id).to_dict(),
        num_query_tokens=QUERIES,
        image_token_index=tokenizer.convert_tokens_to_ids(processor.image_token.content),
    )
    model = Blip2ForConditionalGeneration(config)
    # The library starts all queries at zero: without pretrained ones they would stay equal for ever.
    torch.nn.init.normal_(model.query_tokens, std=0.5)
    return model


def _vision() -> Blip2VisionConfig:
    # The library's initializer range of 1e-10 is for loading pretrained weights only.
    return Blip2VisionConfig(
        hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=4, num_attention_heads=2,
        image_size=_SIDE, patch_size=8, initializer_range=0.02,
    )  # fmt: skip


def _queries() -> Blip2QFormerConfig:
    return Blip2QFormerConfig(
        vocab_size=8, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2,
        # At the library's frequency of 2 only one of these two layers would look at the image.
        num_attention_heads=4, encoder_hidden_size=WIDTH,
        cross_attention_frequency=1, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip


def _language(vocabulary: int, bos: int, eos: int) -> OPTConfig:
    return OPTConfig(
        vocab_size=vocabulary, hidden_size=WIDTH, word_embed_proj_dim=WIDTH, ffn_dim=2 * WIDTH,
        num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, dropout=0.0,
        bos_token_id=bos, eos_token_id=eos, pad_token_id=0,
    )  # fmt: skip
