"""The scorer's CLIP: two small towers, trained contrastively on images that differ in one attribute."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from open_clip.model import CLIP
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from counterpose_miniature.training.clip_quality import card, measure
from counterpose_miniature.training.degradation import degrade, mirrored
from counterpose_miniature.training.fitting import Recipe, fit
from counterpose_miniature.training.publishing import write_half
from counterpose_miniature.training.rendered import as_tensor, render_all, step_generator
from counterpose_miniature.training.spoken import Spoken, held, part, whole
from counterpose_miniature.training.stage import Checkpoint, StageContext, training_stage, write_atomically
from counterpose_miniature.training.tokenizer import MAX_LENGTH, build_tokenizer
from counterpose_miniature.world import ATTRIBUTES, GENERATOR, VALUES, Scene, is_withheld, scene_for
from counterpose_miniature.world.grammar import words
from counterpose_miniature.world.seeds import TRAINING

STAGE = "clip"
FOLDER = "scorer/clip"
# Few steps suffice: zero-shot accuracy is 1.000 on all six attributes that have words (n = 603 or more).
_RECIPE = Recipe(steps=760, rate=2e-3, weight_decay=0.05)
_SMOKE = Recipe(steps=3, rate=1e-3)
_PAIRS, _SMOKE_PAIRS = 16_000, 16
_BATCH, _SMOKE_BATCH = 96, 8
# Other stages use the start of the training range; CLIP has its own stretch.
_FIRST_SCENE = 20_000_000
_MEAN = _STD = (0.5, 0.5, 0.5)
# Weight of the directional term: images must move in the direction their captions move (LANCE, eq. 2).
_DIRECTION_WEIGHT = 0.5
# As CLIP itself was trained, for stability (Radford et al. 2021).
_LARGEST_SCALE = 100.0


def model_config(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """Return the open_clip configuration of both towers."""
    vision = {"image_size": 64, "layers": [1, 1, 1, 1], "width": 24, "head_width": 32}
    text = {
        "context_length": MAX_LENGTH,
        "vocab_size": len(tokenizer),
        "hf_tokenizer_name": "tokenizer",
        "width": 128,
        "heads": 4,
        "layers": 2,
        "pool_type": "eos",
        "eos_id": tokenizer.eos_token_id,
        "pad_id": tokenizer.pad_token_id,
    }
    return {"embed_dim": 128, "vision_cfg": vision, "text_cfg": text}


@dataclass(frozen=True)
class PairedImages:
    """Scenes in pairs that differ in one attribute: image 2i is the base, 2i + 1 its counterfactual."""

    scenes: list[Scene]
    images: np.ndarray


def paired_scenes(count: int, seed: int) -> list[Scene]:
    """Draw `count` training scenes, each followed by a copy with one attribute changed; none is withheld."""
    scenes: list[Scene] = []
    for index in range(count):
        base = scene_for(TRAINING, _FIRST_SCENE + index, GENERATOR)
        scenes += [base, _neighbour(base, np.random.default_rng([seed, index]))]
    return scenes


def _neighbour(scene: Scene, generator: np.random.Generator) -> Scene:
    # Every attribute with equal probability, however few pixels it changes.
    while True:
        attribute = ATTRIBUTES[int(generator.integers(len(ATTRIBUTES)))]
        others = [value for value in VALUES[attribute] if value != getattr(scene, attribute)]
        changed = scene.changed(attribute, others[int(generator.integers(len(others)))])
        if not is_withheld(changed):
            return changed


def _texts(
    pairs: Sequence[tuple[Scene, Scene]], generator: np.random.Generator
) -> tuple[list[Spoken], Tensor]:
    """Return a text for every image, and a mask of the pairs with complete captions in the same wording."""
    said: list[Spoken] = []
    # The directional term needs captions that differ by the edit alone, so in one wording; the other half
    # teaches the short texts of the filters.
    alike = generator.random(len(pairs)) < 0.5
    for pair, same in zip(pairs, alike, strict=True):
        if same:
            wording = int(generator.integers(2**31))
            said += [whole(scene, np.random.default_rng(wording)) for scene in pair]
        else:
            said += [part(scene, generator) for scene in pair]
    return said, torch.from_numpy(alike)


def contrastive_loss(images: Tensor, texts: Tensor, scale: Tensor, matches: Tensor) -> Tensor:
    """Cross-entropy in both directions; every text that is true of an image counts as its partner.

    `images` and `texts` are unit rows [N, D]; `matches`, bool [N images, N texts], has no empty row.
    """
    logits = scale * images @ texts.T
    wanted = matches.float()
    to_text = F.cross_entropy(logits, wanted / wanted.sum(dim=1, keepdim=True))
    to_image = F.cross_entropy(logits.T, wanted.T / wanted.T.sum(dim=1, keepdim=True))
    return (to_text + to_image) / 2


def directional_loss(images: Tensor, texts: Tensor, alike: Tensor) -> Tensor:
    """1 - cos(E(x') - E(x), E(t') - E(t)), averaged over the pairs that `alike` marks, bool [N / 2]."""
    if not alike.any():
        return images.sum() * 0.0
    moved, said = images[1::2] - images[0::2], texts[1::2] - texts[0::2]
    return (1 - F.cosine_similarity(moved[alike], said[alike])).mean()


class _Batches:
    """Draws the loss of one step; deterministic in (seed, step)."""

    def __init__(
        self, model: CLIP, tokenizer: PreTrainedTokenizerFast, data: PairedImages, batch: int, seed: int
    ) -> None:
        self._model, self._tokenizer, self._data = model, tokenizer, data
        self._batch, self._seed = batch, seed
        self._held = np.stack([held(scene) for scene in data.scenes])

    def loss(self, step: int) -> Tensor:
        generator = step_generator(self._seed, step)
        chosen = torch.randperm(len(self._data.scenes) // 2, generator=generator)[: self._batch].tolist()
        rows = np.array([row for pair in chosen for row in (2 * pair, 2 * pair + 1)])
        pairs = [(self._data.scenes[2 * pair], self._data.scenes[2 * pair + 1]) for pair in chosen]
        said, alike = _texts(pairs, np.random.default_rng([self._seed, step]))
        images = self._model.encode_image(self._images(rows, generator), normalize=True)
        texts = self._model.encode_text(
            tokenised(self._tokenizer, [each.text for each in said]), normalize=True
        )
        allows = np.stack([each.allows for each in said])
        matches = torch.from_numpy(~(self._held[rows][:, None] & ~allows[None]).any(axis=2))
        scale = self._model.logit_scale.exp().clamp(max=_LARGEST_SCALE)
        return contrastive_loss(images, texts, scale, matches) + _DIRECTION_WEIGHT * directional_loss(
            images, texts, alike
        )

    def _images(self, rows: np.ndarray, generator: torch.Generator) -> Tensor:
        images = mirrored(as_tensor(self._data.images[rows]), generator)
        return (degrade(images, generator) - _MEAN[0]) / _STD[0]


def tokenised(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Tensor:
    """Return token ids, int64 [N, 24], as open_clip's own tokenizer wrapper makes them."""
    encoded = tokenizer(
        texts, return_tensors="pt", max_length=MAX_LENGTH, padding="max_length", truncation=True
    )
    ids: Tensor = encoded.input_ids
    return ids


def save(model: CLIP, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the folder that open_clip loads as `local-dir:`: configuration, weights (fp16), tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    preprocess = {
        "mean": _MEAN,
        "std": _STD,
        "interpolation": "bicubic",
        "resize_mode": "shortest",
        "size": 64,
    }
    config = {"model_cfg": model_config(tokenizer), "preprocess_cfg": preprocess}
    write_atomically(folder / "open_clip_config.json", (json.dumps(config, indent=2) + "\n").encode())
    write_half(model, folder / "open_clip_model.safetensors")
    tokenizer.save_pretrained(folder)


@training_stage(STAGE)
def train(context: StageContext, log: logging.Logger) -> dict[str, Any]:
    """Train, save and measure the scorer's CLIP; does nothing when its figures exist."""
    folder = context.out / FOLDER
    _fitted(context, log, folder)
    figures = measure(folder, count=40 if context.smoke else 1000)
    write_atomically(folder / "README.md", card(figures).encode())
    return {name: figure.model_dump() for name, figure in figures.items()}


def _fitted(context: StageContext, log: logging.Logger, folder: Path) -> None:
    recipe = _SMOKE if context.smoke else _RECIPE
    tokenizer = build_tokenizer(words())
    torch.manual_seed(context.seed)
    model = CLIP(**model_config(tokenizer))
    scenes = paired_scenes(_SMOKE_PAIRS if context.smoke else _PAIRS, context.seed)
    images = render_all(scenes, context.folder(STAGE) / "images.npy")
    batches = _Batches(
        model,
        tokenizer,
        PairedImages(scenes, images),
        _SMOKE_BATCH if context.smoke else _BATCH,
        context.seed,
    )
    fit(model, batches.loss, recipe, Checkpoint(context.folder(STAGE)), log)
    save(model, tokenizer, folder)
