"""The two kinds of language model that BLIP-2 has: a decoder (OPT), and an encoder with a decoder (Flan-T5).

A decoder reads image and prompt and goes on. An encoder reads both whole, and the decoder answers them: what
was a caption's beginning in training then stands in the encoder, too (BLIP-2, section 3.2).
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from transformers import Blip2ForConditionalGeneration

LONGEST_ENCODED = 512
"""Tokens of the texts that T5 was trained on: its positions are relative, without any limit."""


class LanguageSide(Protocol):
    """What differs between the two kinds."""

    longest: int
    """Tokens of prompt and answer together, at most."""
    pads_left: bool
    """Whether prompts of one batch must end in the same column."""
    spaced: bool
    """Whether the first token of an answer includes the space before it."""

    def new_tokens(self, made: Tensor, prompt_width: int) -> Tensor:
        """Return the new tokens of ``made`` (n, L), the output of ``generate``."""

    def log_odds(
        self, pixels: Tensor, prompts: tuple[Tensor, Tensor], answers: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Return log p of each token of the answers (n, A), given images, prompts and the tokens before.

        Prompts and answers are ids and mask, int64; prompts end and answers begin without a gap.
        """


class DecoderSide:
    """A decoder alone: prompt and answer are one text."""

    pads_left, spaced = True, True

    def __init__(self, model: Blip2ForConditionalGeneration) -> None:
        self._model = model
        self.longest = int(model.config.text_config.max_position_embeddings)

    def new_tokens(self, made: Tensor, prompt_width: int) -> Tensor:
        """Cut the prompt off."""
        return made[:, prompt_width:]

    def log_odds(
        self, pixels: Tensor, prompts: tuple[Tensor, Tensor], answers: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Read prompt and answer in one row; the token before each tells its probability."""
        ids, mask = (torch.cat(parts, dim=1) for parts in zip(prompts, answers, strict=True))
        logits = self._model(pixel_values=pixels, input_ids=ids, attention_mask=mask).logits
        width = answers[0].shape[1]
        return _chosen(logits[:, -width - 1 : -1], answers[0])


class EncoderDecoderSide:
    """An encoder that reads the prompt, and a decoder that answers."""

    pads_left, spaced = False, False
    longest = LONGEST_ENCODED

    def __init__(self, model: Blip2ForConditionalGeneration) -> None:
        self._model = model

    def new_tokens(self, made: Tensor, prompt_width: int) -> Tensor:
        """Cut the decoder's start token off; the prompt is not repeated."""
        return made[:, 1:]

    def log_odds(
        self, pixels: Tensor, prompts: tuple[Tensor, Tensor], answers: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Shift the answer by the start token: the decoder's own labels."""
        start = int(self._model.config.text_config.decoder_start_token_id)
        first = torch.full_like(answers[0][:, :1], start)
        logits = self._model(
            pixel_values=pixels,
            input_ids=prompts[0],
            attention_mask=prompts[1],
            decoder_input_ids=torch.cat([first, answers[0][:, :-1]], dim=1),
        ).logits
        return _chosen(logits, answers[0])


def language_side(model: Blip2ForConditionalGeneration) -> LanguageSide:
    """Return the kind of a model's language model."""
    return DecoderSide(model) if model.config.use_decoder_only_language_model else EncoderDecoderSide(model)


def _chosen(logits: Tensor, ids: Tensor) -> Tensor:
    # In half precision the sum over a hundred tokens would be off by whole nats.
    return logits.float().log_softmax(-1).gather(-1, ids[..., None])[..., 0]
