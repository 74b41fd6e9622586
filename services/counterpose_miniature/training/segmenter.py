"""The segmenter: where the object of an image is, by a small SegFormer (Xie et al. 2021)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import SegformerConfig, SegformerForSemanticSegmentation, SegformerImageProcessor

from counterpose_core.types import Estimate
from counterpose_miniature.training import figures
from counterpose_miniature.training.degradation import degrade, mirrored
from counterpose_miniature.training.fitting import Recipe, fit
from counterpose_miniature.training.images import ImageSet, generator_scenes
from counterpose_miniature.training.publishing import save_half, write_card
from counterpose_miniature.training.rendered import as_tensor, step_generator
from counterpose_miniature.training.stage import StageContext, checkpoint_of, training_stage
from counterpose_miniature.world import VALUES, object_mask, render
from counterpose_miniature.world.seeds import VALIDATION

STAGE = "segmenter"
FOLDER = "scorer/segmenter"
_INSIDE = 128
_MEAN = _STD = 0.5
_BATCH = 32


def a_model() -> SegformerForSemanticSegmentation:
    """A SegFormer of two classes whose first stage halves the image, where published ones quarter it."""
    return SegformerForSemanticSegmentation(
        SegformerConfig(
            depths=[1, 2, 2, 1], sr_ratios=[8, 4, 2, 1], hidden_sizes=[24, 48, 80, 128],
            patch_sizes=[5, 3, 3, 3], strides=[2, 2, 2, 2], num_attention_heads=[1, 2, 4, 4],
            mlp_ratios=[2, 2, 2, 2], decoder_hidden_size=96, drop_path_rate=0.0,
            classifier_dropout_prob=0.0, id2label={0: "background", 1: "object"},
            label2id={"background": 0, "object": 1},
        )
    )  # fmt: skip


@training_stage(STAGE)
def train(context: StageContext, log: logging.Logger) -> dict[str, Any]:
    """Train on the generator's scenes, save the folder, and measure it on validation scenes."""
    count, steps = (32, 3) if context.smoke else (12_000, 1_800)
    rendered = ImageSet(context.work / "images", count)
    rendered.ensure(context.threads)
    images, masks = rendered.load()
    torch.manual_seed(context.seed)
    model = a_model()

    def loss(step: int) -> Tensor:
        generator = step_generator(context.seed, step)
        rows = torch.randint(count, (_BATCH,), generator=generator).numpy()
        mask = torch.from_numpy(masks[rows]).float()[:, None] / 255
        both = mirrored(torch.cat([as_tensor(images[rows]), mask], 1), generator)
        pixels = (degrade(both[:, :3], generator) - _MEAN) / _STD
        return F.binary_cross_entropy_with_logits(_odds(model, pixels), both[:, 3])

    fit(model, loss, Recipe(steps=steps, rate=2e-3, weight_decay=0.02), checkpoint_of(context, STAGE), log)
    folder = context.out / FOLDER
    save_half(model, folder)
    SegformerImageProcessor(
        size={"height": 64, "width": 64}, image_mean=[_MEAN] * 3, image_std=[_STD] * 3, do_reduce_labels=False
    ).save_pretrained(folder)
    found = measured(folder, n=8 if context.smoke else 800)
    write_card(
        folder,
        "Segmenter of the rendered world",
        [
            "Where the object is. Intersection over union with the renderer's masks on validation scenes, "
            "whose seeds training never sees; an image without any pixel in either counts 0.",
            figures.table(found, "intersection over union"),
        ],
    )
    return {name: figure.model_dump() for name, figure in found.items()}


def measured(folder: Path, *, n: int) -> dict[str, Estimate]:
    """Hold a saved segmenter against the exact masks of validation scenes: of all, and by class."""
    model = SegformerForSemanticSegmentation.from_pretrained(folder).eval()
    scenes = generator_scenes(range(n), VALIDATION)
    overlaps: list[float] = []
    for start in range(0, n, _BATCH):
        some = scenes[start : start + _BATCH]
        with torch.inference_mode():
            odds = _odds(model, (as_tensor(np.stack([render(scene) for scene in some])) - _MEAN) / _STD)
        exact = [object_mask(scene) * 255 >= _INSIDE for scene in some]
        overlaps += [overlap(one > 0, mask) for one, mask in zip(odds.numpy(), exact, strict=True)]
    labels: Sequence[str] = [scene.object_class for scene in scenes]
    of_class = {
        name: [value for value, label in zip(overlaps, labels, strict=True) if label == name]
        for name in VALUES["object_class"]
    }
    return {
        "all": figures.mean(overlaps),
        "at least 0.9": figures.share(sum(value >= 0.9 for value in overlaps), n),
    } | {name: figures.mean(values) for name, values in of_class.items() if len(values) > 1}


def overlap(predicted: np.ndarray, exact: np.ndarray) -> float:
    """Intersection over union of two masks, bool [H, W]; 0 where both are empty."""
    union = int((predicted | exact).sum())
    return float((predicted & exact).sum() / union) if union else 0.0


def _odds(model: SegformerForSemanticSegmentation, pixels: Tensor) -> Tensor:
    """The log-odds of the object, [N, H, W], by the image's own pixels."""
    logits = F.interpolate(model(pixels).logits, pixels.shape[2:], mode="bilinear", align_corners=False)
    return logits[:, 1] - logits[:, 0]
