"""The captioner's training data: scenes of both kinds, and captions with and without a label as prefix."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from counterpose_miniature.training.degradation import degrade, mirrored
from counterpose_miniature.world import VALUES, Distribution, Scene, SeedRange, caption, scene_for
from counterpose_miniature.world.grammar import phrase

# Both kinds in equal parts, because a stress test shows both to the captioner.
SCENES = Distribution(
    weights={"companion": {"none": 0.4, "dog": 0.2, "person": 0.2, "ball": 0.2}}, allow_withheld=False
)
LABEL_PREFIX = "a photo of a {label}"
_SHIFT = 3


def scenes_of(split: SeedRange, count: int) -> list[Scene]:
    """Return the first `count` scenes of a split, without withheld combinations."""
    return [scene_for(split, index, SCENES) for index in range(count)]


def targets_of(scenes: list[Scene]) -> dict[str, torch.Tensor]:
    """Return the index of each scene's value, int64 [n], by attribute."""
    return {
        attribute: torch.tensor([values.index(getattr(scene, attribute)) for scene in scenes])
        for attribute, values in VALUES.items()
    }


def disturbed(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Flip, shift and degrade images in 0..1 and scale them to -1..1; their captions stay true."""
    images = degrade(mirrored(images, generator), generator)
    top, left = torch.randint(0, 2 * _SHIFT + 1, (2,), generator=generator).tolist()
    padded = F.pad(images, [_SHIFT] * 4, mode="replicate")
    side = images.shape[-1]
    return 2.0 * padded[:, :, top : top + side, left : left + side] - 1.0


@dataclass(frozen=True)
class Spoken:
    """A text, and the prompt before it."""

    prompt: str
    text: str


def main_caption(scene: Scene) -> Spoken:
    """Describe a scene in the captioner's only template."""
    return Spoken("", caption(scene, 0))


def labelled_caption(scene: Scene) -> Spoken:
    """Continue a prefix with the label; without the colour, which would stand before the label."""
    prompt = LABEL_PREFIX.format(label=scene.object_class)
    kind = phrase("kind", scene.kind, scene.object_class).partition(scene.object_class)[2]
    names = ("background", "weather", "companion")
    rest = (phrase(name, getattr(scene, name), scene.object_class) for name in names)
    return Spoken(prompt, " ".join(part for part in (kind.strip(), *rest) if part))
