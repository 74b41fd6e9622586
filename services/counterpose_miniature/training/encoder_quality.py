"""What the encoder's features tell: is an image nearest to the references of its own class?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoImageProcessor, ResNetModel

from counterpose_core.types import Estimate
from counterpose_miniature.training import figures
from counterpose_miniature.training.publishing import write_card
from counterpose_miniature.world import Scene, render
from counterpose_miniature.world.sampling import DATASET
from counterpose_miniature.world.scene import VALUES
from counterpose_miniature.world.seeds import VALIDATION, balanced_scenes

_RUNS, _REFERENCES = 10, 8


def measured(folder: Path, *, per_class: int) -> dict[str, Estimate]:
    """Decide by class references about validation images: all, and those of each class.

    Each of ten runs has eight references and ``per_class`` other images of each class.
    """
    model = ResNetModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
    processor = AutoImageProcessor.from_pretrained(folder, local_files_only=True)

    def features(scenes: Sequence[Scene]) -> Tensor:
        pixels = processor([render(scene) for scene in scenes], return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            return F.normalize(model(pixels).last_hidden_state.mean((2, 3)), dim=1)

    classes = VALUES["object_class"]
    right: dict[str, list[bool]] = {name: [] for name in classes}
    scenes = list(balanced_scenes(VALIDATION, DATASET, _RUNS * (_REFERENCES + per_class)))
    of_class = {name: [scene for scene in scenes if scene.object_class == name] for name in classes}
    for run in range(_RUNS):
        chosen = {name: of_class[name][run::_RUNS] for name in classes}
        means = torch.stack([features(some[:_REFERENCES]).mean(0) for some in chosen.values()])
        for number, (name, some) in enumerate(chosen.items()):
            nearest = (features(some[_REFERENCES:]) @ F.normalize(means, dim=1).T).argmax(1)
            right[name] += (nearest == number).tolist()
    every = [hit for hits in right.values() for hit in hits]
    named = {"all": every} | right
    return {name: figures.share(int(np.sum(hits)), len(hits)) for name, hits in named.items()}


def write_encoder_card(folder: Path, found: dict[str, Estimate]) -> None:
    """Write README.md into the encoder's folder."""
    about = (
        "A `transformers.ResNetModel` of three stages; the mean of its last map over places stands for "
        "the image. The judge `encoder` compares it with the mean of each class's references."
    )
    trained = (
        "`python -m counterpose_miniature.training encoder`: SimCLR on images of the world's training seeds. "
        "No class, attribute or caption reaches the training. It is told where the object is, by the "
        "renderer's mask, not what it is: in most views the object stands before another image's background. "
        "Its 1,200 steps took three minutes of one core."
    )
    measured_on = (
        "Validation seeds, of the dataset's distribution: the share of images that are nearest to their own "
        f"class of eight. Each of {_RUNS} runs has {_REFERENCES} references a class of its own; a guess is "
        "right in 0.125. The intervals count images as independent, though those of a run share references."
    )
    title = "Encoder of the miniature suite"
    write_card(folder, title, [about, trained, measured_on, figures.table(found, "nearest to its own class")])
