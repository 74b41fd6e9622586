"""The masked language model, which proposes another word for a position of a caption (LANCE-R, section 4)."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from counterpose_core.types import Estimate
from counterpose_miniature.training.caption_text import drawn_caption, templates_of
from counterpose_miniature.training.figures import mean, share, table
from counterpose_miniature.training.fitting import Recipe, fit
from counterpose_miniature.training.publishing import save_half, write_card
from counterpose_miniature.training.stage import Checkpoint, StageContext
from counterpose_miniature.training.tokenizer import caption_tokenizer
from counterpose_miniature.world import grammar

_STREAM, _TEST_STREAM = 0x3A5C, 0x3A5D
_MOST_MASKED = 3
_BATCH, _SMOKE_BATCH = 128, 16


def train_masked_lm(context: StageContext, logger: logging.Logger) -> dict[str, Estimate]:
    """Train, measure and save `scorer/masked-lm`; return its quality figures."""
    tokenizer = caption_tokenizer()
    torch.manual_seed(context.seed)
    model = BertForMaskedLM(bert_config(tokenizer, layers=3))
    model.set_attn_implementation("eager")
    recipe = Recipe(steps=10 if context.smoke else 2500, rate=2e-3)
    size = _SMOKE_BATCH if context.smoke else _BATCH

    def loss_at(step: int) -> torch.Tensor:
        ids, labels = masked_batch(tokenizer, np.random.default_rng([context.seed, _STREAM, step]), size)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids, attention_mask=(ids != tokenizer.pad_token_id).long()).logits
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100)

    fit(model, loss_at, recipe, Checkpoint(context.folder("language"), "masked-lm.pt"), logger)
    figures = measured(model, tokenizer, n=20 if context.smoke else 400)
    folder = context.out / "scorer" / "masked-lm"
    save_half(model, folder)
    tokenizer.save_pretrained(folder)
    _write_card(folder, figures)
    return figures


def bert_config(tokenizer: PreTrainedTokenizerFast, layers: int) -> BertConfig:
    """Return the shape of a small BERT of width 96 for the world's vocabulary."""
    return BertConfig(
        vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, num_hidden_layers=layers,
        hidden_size=96, num_attention_heads=4, intermediate_size=192, max_position_embeddings=32,
        type_vocab_size=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip


def masked_batch(
    tokenizer: PreTrainedTokenizerFast, generator: np.random.Generator, size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids with one to three words masked and labels, -100 elsewhere; both int64 [size, L]."""
    texts = [drawn_caption(generator) for _ in range(size)]
    ids = tokenizer(texts, padding=True, return_tensors="pt").input_ids
    order = torch.from_numpy(generator.random(ids.shape))
    ends = torch.tensor([tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id])
    # Draws are below 1, so special tokens rank last and are never among the one to three lowest.
    order = order.masked_fill(torch.isin(ids, ends), 2.0)
    count = torch.from_numpy(generator.integers(1, _MOST_MASKED + 1, (size, 1)))
    chosen = order.argsort(1).argsort(1) < count
    return ids.masked_fill(chosen, tokenizer.mask_token_id), ids.masked_fill(~chosen, -100)


@torch.no_grad()
def measured(model: BertForMaskedLM, tokenizer: PreTrainedTokenizerFast, *, n: int) -> dict[str, Estimate]:
    """Mask a word of new captions and measure the probability of words that keep them well formed."""
    generator = np.random.default_rng(_TEST_STREAM)
    sound, top_sound = [], 0
    for _ in range(n):
        words = grammar.tokens(drawn_caption(generator))
        place = int(generator.integers(len(words)))
        encoded = tokenizer(
            " ".join([*words[:place], tokenizer.mask_token, *words[place + 1 :]]), return_tensors="pt"
        )
        logits = model(input_ids=encoded.input_ids, attention_mask=encoded.attention_mask).logits
        odds = logits[0, place + 1].softmax(0)
        fits = [
            _fits(words, place, word) for word in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        ]
        sound.append(float(odds[torch.tensor(fits)].sum()))
        top_sound += fits[int(odds.argmax())]
    return {"probability on words that fit": mean(sound), "best word fits": share(top_sound, n)}


def _fits(words: list[str], place: int, word: str) -> bool:
    text = " ".join([*words[:place], word, *words[place + 1 :]]).replace(" ,", ",")
    return not word.startswith("<") and bool(templates_of(text))


def _write_card(folder: Path, figures: dict[str, Estimate]) -> None:
    about = (
        "A `BertForMaskedLM` of 3 layers and width 96 over the closed vocabulary of the miniature world, "
        "trained from nothing on the captions of its grammar; combinations of class and attribute that the "
        "world withholds never occurred. A word fits when the caption with it follows the grammar to the "
        "letter. Fresh captions, one masked word each."
    )
    write_card(
        folder, "Masked language model of the miniature suite", [about, table(figures, "one masked word")]
    )
