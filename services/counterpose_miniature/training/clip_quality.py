"""The quality of the scorer's CLIP, measured on development scenes with open_clip's loader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import torch
import torch.nn.functional as F
from torch import Tensor

from counterpose_core.types import Estimate
from counterpose_miniature.training import figures
from counterpose_miniature.training.rendered import as_tensor
from counterpose_miniature.world import (
    ATTRIBUTES,
    GENERATOR,
    VALUES,
    Scene,
    caption,
    is_withheld,
    render,
    scene_for,
)
from counterpose_miniature.world.grammar import class_name, phrase
from counterpose_miniature.world.seeds import DEVELOPMENT

_STYLES = ("a photo of a {}", "a painting of a {}", "a sketch of a {}", "a {}")
# LANCE's threshold on the directional similarity, section 3.3.
_DIRECTION_GATE = 0.2


class Towers:
    """A saved CLIP, loaded in the same way as by the scorer."""

    def __init__(self, folder: Path) -> None:
        name = f"local-dir:{folder}"
        model, _, _ = open_clip.create_model_and_transforms(name)
        self._model = model.eval()
        self._tokenizer: Any = open_clip.get_tokenizer(name)

    @torch.no_grad()
    def images(self, scenes: Sequence[Scene]) -> Tensor:
        """Embed rendered scenes as unit rows [N, D]; 64-pixel images need no resizing."""
        pixels = as_tensor(np.stack([render(scene) for scene in scenes]))
        batches = torch.split((pixels - 0.5) / 0.5, 128)
        return torch.cat([self._model.encode_image(batch, normalize=True) for batch in batches])

    @torch.no_grad()
    def texts(self, texts: Sequence[str]) -> Tensor:
        """Embed texts as unit rows [N, D]."""
        ids: Tensor = self._tokenizer(list(texts))
        return torch.cat([self._model.encode_text(part, normalize=True) for part in torch.split(ids, 512)])


def measure(folder: Path, count: int) -> dict[str, Estimate]:
    """Return zero-shot accuracy, caption choice and directional figures over `count` development scenes."""
    towers = Towers(folder)
    scenes = [scene_for(DEVELOPMENT, index, GENERATOR) for index in range(count)]
    images = towers.images(scenes)
    found = {f"zero-shot {name}": _zero_shot(towers, scenes, images, name) for name in _PROMPTS}
    found |= {f"caption choice {name}": _caption_choice(towers, scenes, images, name) for name in ATTRIBUTES}
    return found | _directions(towers, scenes, images)


_PROMPTS = {
    "object_class": [
        [form.format(class_name(value)) for form in _STYLES] for value in VALUES["object_class"]
    ],
    "colour": [
        [f"a {value} {name}" for name in VALUES["object_class"]] + [value] for value in VALUES["colour"]
    ],
    "background": [[value, phrase("background", value, "bus")] for value in VALUES["background"]],
    "weather": [[value, phrase("weather", value, "bus")] for value in VALUES["weather"] if value != "clear"],
    "style": [[value, f"a {value}"] for value in VALUES["style"]],
    "companion": [[f"a {value}", f"next to a {value}"] for value in VALUES["companion"] if value != "none"],
}


def _zero_shot(towers: Towers, scenes: list[Scene], images: Tensor, attribute: str) -> Estimate:
    """Classify by the mean embeddings of each value's prompts; values without words are left out."""
    means = torch.stack(
        [F.normalize(towers.texts(prompts).mean(dim=0), dim=0) for prompts in _PROMPTS[attribute]]
    )
    named = [value for value in VALUES[attribute] if value not in ("clear", "none")]
    asked = [row for row, scene in enumerate(scenes) if getattr(scene, attribute) in named]
    truth = torch.tensor([named.index(getattr(scenes[row], attribute)) for row in asked])
    guesses = (images[asked] @ means.T).argmax(dim=1)
    return figures.share(int((guesses == truth).sum()), len(asked))


def _caption_choice(towers: Towers, scenes: list[Scene], images: Tensor, attribute: str) -> Estimate:
    """Classify among the captions that differ only in this attribute."""
    values = VALUES[attribute]
    texts = [caption(scene.changed(attribute, value)) for scene in scenes for value in values]
    offered = towers.texts(texts).reshape(len(scenes), len(values), -1)
    guesses = torch.einsum("nd,nvd->nv", images, offered).argmax(dim=1)
    truth = torch.tensor([values.index(getattr(scene, attribute)) for scene in scenes])
    return figures.share(int((guesses == truth).sum()), len(scenes))


def _edited(scene: Scene, index: int) -> tuple[str, Scene]:
    # Attributes and values rotate, so that every attribute is edited equally often.
    turn = index
    while True:
        attribute = ATTRIBUTES[turn % len(ATTRIBUTES)]
        others = [value for value in VALUES[attribute] if value != getattr(scene, attribute)]
        changed = scene.changed(attribute, others[turn // len(ATTRIBUTES) % len(others)])
        if not is_withheld(changed):
            return attribute, changed
        turn += len(ATTRIBUTES)


def _directions(towers: Towers, scenes: list[Scene], images: Tensor) -> dict[str, Estimate]:
    edits = [_edited(scene, index) for index, scene in enumerate(scenes)]
    after = [scene for _, scene in edits]
    edited = towers.images(after)
    before_text = towers.texts([caption(scene) for scene in scenes])
    moves = towers.texts([caption(scene) for scene in after]) - before_text
    direction = F.cosine_similarity(edited - images, moves)
    # A hit: no edit to another value has a caption change that is closer to this image's change.
    ranked = F.normalize(edited - images, dim=1) @ F.normalize(moves, dim=1).T
    targets = [(attribute, getattr(scene, attribute)) for attribute, scene in edits]
    same = torch.tensor([[one == other for other in targets] for one in targets])
    best = ranked.masked_fill(same, -1.0).max(dim=1).values < direction
    likeness = (edited * images).sum(dim=1)
    image_text = (images * before_text).sum(dim=1)
    found = {
        "direction of true edits": figures.mean(direction.numpy()),
        "direction of true edits at or above 0.2": _rate(direction >= _DIRECTION_GATE),
        "direction of wrong edits": figures.mean(ranked.roll(1, dims=1).diagonal().numpy()),
        "no edit to another value fits better": _rate(best),
        "image to image, edited": figures.mean(likeness.numpy()),
        "image to text, own caption": figures.mean(image_text.numpy()),
    }
    for attribute in ATTRIBUTES:
        rows = torch.tensor([name == attribute for name, _ in edits])
        found[f"direction of true edits, {attribute}"] = figures.mean(direction[rows].numpy())
        found[f"image to image, {attribute} edited"] = figures.mean(likeness[rows].numpy())
    return found


def _rate(hits: Tensor) -> Estimate:
    return figures.share(int(hits.sum()), len(hits))


def card(found: dict[str, Estimate]) -> str:
    """Return the model card."""
    return f"""# CLIP of the miniature scorer

An image tower (ModifiedResNet, width 24, one block a stage, 64 px) and a text tower (2 layers of width
128, 24 tokens), 128-dimensional embeddings, in open_clip's format: load it with
`open_clip.create_model_and_transforms("local-dir:<this folder>")`, its tokenizer with
`open_clip.get_tokenizer`.

Trained contrastively on rendered scenes of the generator's distribution (training seeds, the four
withheld combinations never seen), in pairs that differ in one attribute, with whole captions, parts of
captions and single words; a text that is true of several images of a batch counts as a partner of each.
A directional term asks that images move as their captions do. Images were blurred, rescaled, tinted,
compressed and noised at random.

Measured on development seeds. *Zero-shot*: prompts of each value, values without words left out. *Caption
choice*: the true caption against those that differ in this attribute only. *Direction*: LANCE, eq. 2, on
rendered counterfactual pairs of one changed attribute each.

{figures.table(found, "figure")}
"""
