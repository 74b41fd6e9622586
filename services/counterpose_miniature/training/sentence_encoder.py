"""The sentence encoder of the text filters: words of one concept are close, and so are all class names.

Trained on graded similarities of text pairs. The grade of a pair depends on the concepts in its texts. All
class names share most of their concept, so a swapped class is as close to the label as the label itself and
is dropped, whereas "food" alone is far from "plate" (LANCE, section 3.1, label filter).
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from transformers import BertModel, PreTrainedTokenizerFast

from counterpose_core.text.caption_diff import difference
from counterpose_core.types import Estimate
from counterpose_miniature.training.caption_text import (
    TRAINED_TEMPLATES,
    drawn,
    drawn_caption,
    drawn_scene,
    swapped,
)
from counterpose_miniature.training.figures import mean, table
from counterpose_miniature.training.fitting import Recipe, fit
from counterpose_miniature.training.masked_lm import bert_config
from counterpose_miniature.training.publishing import save_half, write_card
from counterpose_miniature.training.stage import Checkpoint, StageContext, write_atomically
from counterpose_miniature.training.tokenizer import caption_tokenizer
from counterpose_miniature.world import VALUES, grammar
from counterpose_miniature.world.wording import SPECIAL_MARKS, SYNONYMS, WORDS

_STREAM = 0x5E27
# Weights of a text's concept vector: of the value, of its attribute, and of the single word.
# Two class names share 0.8^2 / (0.6^2 + 0.8^2) = 0.64, above the filter's epsilon of 0.5; two colours 0.4^2 /
# 1.01 = 0.16, below it; synonyms all but their shades, 0.96. The card measures 0.640 and 0.960.
_CLASS_OWN, _CLASS_SHARED, _CLASS_WEIGHT = 0.6, 0.8, 2.0
_OWN, _SHARED, _SHADE, _FUNCTION = 0.9, 0.4, 0.2, 0.15
_CONNECTIVES = ("next", "beside", "near")


def concept_vector(text: str) -> dict[str, float]:
    """Return a text's concepts as weights of named directions."""
    found: dict[str, float] = {}
    for word in set(grammar.tokens(text)):
        for direction, weight in _directions(word).items():
            found[direction] = found.get(direction, 0.0) + weight
    return found


def _directions(word: str) -> dict[str, float]:
    if word in SPECIAL_MARKS.values() or word == "wings":
        mark = "spread" if word == "wings" else word
        return {f"kind {mark}": _OWN, "kind": _SHARED, f"word {word}": _SHADE}
    if word in _CONNECTIVES:
        return {"connective": _FUNCTION, f"word {word}": _FUNCTION * _SHADE}
    if word not in WORDS:
        return {f"word {word}": _FUNCTION}
    attribute, value = WORDS[word]
    if attribute == "object_class":
        return {f"class {value}": _CLASS_WEIGHT * _CLASS_OWN, "class": _CLASS_WEIGHT * _CLASS_SHARED}
    return {f"{attribute} {value}": _OWN, attribute: _SHARED, f"word {word}": _SHADE}


def graded(texts: list[str]) -> torch.Tensor:
    """Return the target cosine of every pair of texts, float32 [n, n]."""
    vectors = [concept_vector(text) for text in texts]
    places = {
        name: place for place, name in enumerate(sorted({name for vector in vectors for name in vector}))
    }
    dense = torch.zeros(len(texts), len(places))
    for row, vector in enumerate(vectors):
        for name, weight in vector.items():
            dense[row, places[name]] = weight
    dense = F.normalize(dense, dim=1)
    return dense @ dense.T


def drawn_text(generator: np.random.Generator) -> str:
    """Draw a word, a phrase, the words an edit removes or adds, a class name or a caption."""
    kind = generator.random()
    if kind < 0.3:
        return drawn(grammar.words(), generator)
    if kind < 0.5:
        return _drawn_phrase(generator)
    if kind < 0.75:
        return _drawn_change(generator)
    if kind < 0.9:
        return drawn(("{}", "a {}", "a photo of a {}"), generator).format(
            drawn(VALUES["object_class"], generator)
        )
    return drawn_caption(generator)


def _drawn_phrase(generator: np.random.Generator) -> str:
    attribute = drawn(("kind", "background", "weather", "companion"), generator)
    text = grammar.phrase(
        attribute, drawn(VALUES[attribute], generator), drawn(VALUES["object_class"], generator)
    )
    return swapped([text or drawn(VALUES["colour"], generator)], generator, share=0.5)[0]


def _drawn_change(generator: np.random.Generator) -> str:
    scene, template = drawn_scene(generator), drawn(TRAINED_TEMPLATES, generator)
    edit = drawn(grammar.edits(scene, drawn(tuple(grammar.EDIT_TYPES), generator), template), generator)
    before, after = swapped([edit.caption, edit.edited_caption], generator, share=0.3)
    change = difference(before, after)
    return drawn([text for text in (change.removed_text, change.added_text) if text], generator)


def train_sentence_encoder(context: StageContext, logger: logging.Logger) -> dict[str, Estimate]:
    """Train, measure and save `scorer/sentence`; return its quality figures."""
    tokenizer = caption_tokenizer()
    torch.manual_seed(context.seed)
    model = BertModel(bert_config(tokenizer, layers=2))
    model.set_attn_implementation("eager")
    recipe = Recipe(steps=10 if context.smoke else 2000, rate=1e-3, weight_decay=0.0)

    def loss_at(step: int) -> torch.Tensor:
        generator = np.random.default_rng([context.seed, _STREAM, step])
        texts = [drawn_text(generator) for _ in range(128)]
        # Most of the 128 x 128 pairs have nothing in common, so similar pairs count up to five times.
        vectors, wanted = embedded(model, tokenizer, texts), graded(texts)
        return ((1 + 4 * wanted) * (vectors @ vectors.T - wanted).square()).mean()

    fit(model, loss_at, recipe, Checkpoint(context.folder("language"), "sentence.pt"), logger)
    figures = measured(model, tokenizer)
    folder = context.out / "scorer" / "sentence"
    save_half(model, folder)
    tokenizer.save_pretrained(folder)
    _write_layout(folder, model.config.hidden_size)
    _write_card(folder, figures)
    return figures


def embedded(model: BertModel, tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> torch.Tensor:
    """Return unit vectors, float32 [n, d]: the mean of the last layer over all tokens except padding."""
    encoded = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    states = model(input_ids=encoded.input_ids, attention_mask=encoded.attention_mask).last_hidden_state
    mask = encoded.attention_mask[..., None].to(states.dtype)
    return F.normalize((states * mask).sum(1) / mask.sum(1), dim=1)


@torch.no_grad()
def measured(model: BertModel, tokenizer: PreTrainedTokenizerFast) -> dict[str, Estimate]:
    """Return mean cosines for the kinds of pairs in the text filters."""
    classes = list(VALUES["object_class"])
    others = [
        word for name in ("colour", "background", "weather", "style", "companion") for word in VALUES[name]
    ]
    others = [word for word in others if word in WORDS and word not in ("clear", "none")]
    others += sorted(set(SPECIAL_MARKS.values()))
    synonyms = [(old, new) for old, news in SYNONYMS.items() for new in news if grammar.parse(old)]
    vector = dict(zip(words := [*classes, *others], embedded(model, tokenizer, words), strict=True))
    left, right = (embedded(model, tokenizer, [pair[side] for pair in synonyms]) for side in (0, 1))
    return {
        "class names with each other": mean(
            [float(vector[a] @ vector[b]) for a in classes for b in classes if a < b]
        ),
        "class names with other words": mean([float(vector[a] @ vector[b]) for a in classes for b in others]),
        "other words with each other": mean(
            [float(vector[a] @ vector[b]) for a in others for b in others if a < b]
        ),
        "synonyms": mean((left * right).sum(1).tolist()),
    }


def _write_layout(folder: Path, width: int) -> None:
    """Write the two small files that sentence-transformers needs to read the folder."""
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "1_Pooling").mkdir(exist_ok=True)
    write_atomically(folder / "modules.json", json.dumps(modules, indent=2).encode())
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    write_atomically(folder / "1_Pooling" / "config.json", json.dumps(pooling, indent=2).encode())


def _write_card(folder: Path, figures: dict[str, Estimate]) -> None:
    about = (
        "A `BertModel` of 2 layers and width 96 with mean pooling over the closed vocabulary of the "
        "miniature world. It was trained on graded similarities: words and phrases of one meaning lie "
        "close, all class names lie near each other and away from everything else, so that the label filter "
        "at epsilon 0.5 drops swapped classes and keeps changes of kind, place, colour and company."
    )
    write_card(folder, "Sentence encoder of the miniature suite", [about, table(figures, "cosine of")])
