"""The captioner: a small BLIP-2 whose vision tower learns the attributes before it learns sentences."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import (
    Blip2Config,
    Blip2ForConditionalGeneration,
    Blip2Processor,
    Blip2QFormerConfig,
    Blip2VisionConfig,
    BlipImageProcessor,
    OPTConfig,
)

from counterpose_miniature.training.caption_data import (
    Spoken,
    disturbed,
    labelled_caption,
    main_caption,
    scenes_of,
    targets_of,
)
from counterpose_miniature.training.captioner_quality import measured, write_captioner_card
from counterpose_miniature.training.fitting import Recipe, fit, next_word_loss, prompted
from counterpose_miniature.training.publishing import save_half
from counterpose_miniature.training.rendered import as_tensor, render_all, step_generator
from counterpose_miniature.training.stage import Checkpoint, StageContext, training_stage
from counterpose_miniature.training.tokenizer import caption_tokenizer
from counterpose_miniature.world import VALUES, Scene
from counterpose_miniature.world.seeds import TRAINING

QUERIES = 8
WIDTH = 128
_SIDE = 64
STAGE = "captioner"
_BATCH = 64
_LABELLED = 0.15
Draw = Callable[[int], tuple[torch.Tensor, torch.Tensor, torch.Generator]]


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
    # The library initialises all queries with zero; without pretrained ones they would stay equal.
    torch.nn.init.normal_(model.query_tokens, std=0.5)
    return model


def _vision() -> Blip2VisionConfig:
    # The library's initializer range of 1e-10 suits only pretrained weights.
    return Blip2VisionConfig(
        hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=4, num_attention_heads=2,
        image_size=_SIDE, patch_size=8, initializer_range=0.02,
    )  # fmt: skip


def _queries() -> Blip2QFormerConfig:
    return Blip2QFormerConfig(
        vocab_size=8, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2,
        # With the library's frequency of 2, only one of these two layers would attend to the image.
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


@training_stage(STAGE)
def train(context: StageContext, logger: logging.Logger) -> dict[str, Any]:
    """Render, train the vision tower, train the whole, measure and save; resumes where it was stopped."""
    torch.manual_seed(context.seed)
    scenes = scenes_of(TRAINING, 2 * _BATCH if context.smoke else 36_000)
    images = render_all(scenes, context.folder(STAGE) / f"images-{len(scenes)}.npy")
    processor = build_processor()
    model = build_model(processor)
    model.set_attn_implementation("eager")
    draw = _drawer(images, context.seed)
    _teach_vision(model, targets_of(scenes), draw, context, logger)
    _teach_sentences(model, processor, scenes, draw, context, logger)
    figures = measured(model, processor, n=4 if context.smoke else 600)
    folder = context.out / STAGE
    save_half(model, folder)
    processor.save_pretrained(folder)
    write_captioner_card(folder, figures)
    return {name: figure.model_dump() for name, figure in figures.items()}


def _drawer(images: np.ndarray, seed: int) -> Draw:
    def draw(step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Generator]:
        generator = step_generator(seed, step)
        # In increasing order, so that a memory-mapped cache is read forwards.
        rows = torch.randint(0, len(images), (_BATCH,), generator=generator).sort().values
        return rows, disturbed(as_tensor(images[rows.numpy()]), generator), generator

    return draw


class AttributeReader(nn.Module):
    """The vision tower with a linear head per attribute on its mean token; the heads are discarded."""

    def __init__(self, vision: nn.Module, width: int) -> None:
        super().__init__()
        self.vision = vision
        self.heads = nn.ModuleDict({name: nn.Linear(width, len(values)) for name, values in VALUES.items()})

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return logits, float32 [n, values], by attribute."""
        states = self.vision(pixel_values=pixels).last_hidden_state.float().mean(1)
        return {name: head(states) for name, head in self.heads.items()}


def _teach_vision(
    model: Blip2ForConditionalGeneration,
    targets: dict[str, torch.Tensor],
    draw: Draw,
    context: StageContext,
    logger: logging.Logger,
) -> None:
    reader = AttributeReader(model.vision_model, WIDTH)

    def loss_at(step: int) -> torch.Tensor:
        rows, pixels, _ = draw(step)
        with torch.autocast("cpu", torch.bfloat16):
            logits = reader(pixels)
        losses = [
            F.cross_entropy(logits[name].float(), targets[name][rows], label_smoothing=0.05)
            for name in logits
        ]
        return torch.stack(losses).sum()

    recipe = Recipe(steps=3 if context.smoke else 3000, rate=1e-3, weight_decay=0.02)
    fit(reader, loss_at, recipe, Checkpoint(context.folder(STAGE), "vision.pt"), logger)


def _teach_sentences(
    model: Blip2ForConditionalGeneration,
    processor: Blip2Processor,
    scenes: list[Scene],
    draw: Draw,
    context: StageContext,
    logger: logging.Logger,
) -> None:
    def loss_at(step: int) -> torch.Tensor:
        # Other draws than the vision tower's, which has seen those batches.
        rows, pixels, generator = draw(step + 1_000_000)
        labelled = torch.rand(len(rows), generator=generator) < _LABELLED
        spoken = [
            (labelled_caption if prefixed else main_caption)(scenes[row])
            for row, prefixed in zip(rows.tolist(), labelled.tolist(), strict=True)
        ]
        ids, labels = encoded(processor, spoken)
        mask = (ids != processor.tokenizer.pad_token_id).long()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(pixel_values=pixels, input_ids=ids, attention_mask=mask).logits
        return next_word_loss(logits, labels)

    recipe = Recipe(steps=3 if context.smoke else 2000, rate=1e-3, weight_decay=0.02)
    fit(model, loss_at, recipe, Checkpoint(context.folder(STAGE), "sentences.pt"), logger)


def encoded(processor: Blip2Processor, spoken: list[Spoken]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids `<image> x queries, <bos>, prompt, text, <eos>` and labels on text and end, int64 [n, L]."""
    tokenizer = processor.tokenizer
    images = [tokenizer.convert_tokens_to_ids(processor.image_token.content)] * QUERIES
    pairs = (
        (
            images + tokenizer(one.prompt).input_ids,
            [*tokenizer(one.text, add_special_tokens=False).input_ids, tokenizer.eos_token_id],
        )
        for one in spoken
    )
    return prompted(pairs, tokenizer.pad_token_id)
