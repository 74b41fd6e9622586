"""A small attribute probe that monitors the generator during training and has no other use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

from counterpose_miniature.training.autoencoder import to_tensor, training_images
from counterpose_miniature.training.images import generator_scenes
from counterpose_miniature.training.stage import StageContext, learning_rate
from counterpose_miniature.world.scene import ATTRIBUTES, VALUES, Scene

STAGE = "probe"
_WIDTH = 32
_STEPS, _SMOKE_STEPS = 450, 4
_BATCH, _SMOKE_BATCH = 64, 8
_RATE = 4e-3


class Probe(nn.Module):
    """Six convolutions and one linear head for the values of every attribute."""

    def __init__(self) -> None:
        super().__init__()
        plan = [(3, 1, 2), (1, 1, 1), (1, 2, 2), (2, 2, 1), (2, 4, 2), (4, 4, 1)]
        layers: list[nn.Module] = []
        for number, (taken, given, stride) in enumerate(plan):
            wide_in = taken if number == 0 else taken * _WIDTH
            layers += [
                nn.Conv2d(wide_in, given * _WIDTH, 3, stride, 1, bias=False),
                nn.BatchNorm2d(given * _WIDTH),
                nn.ReLU(),
            ]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(8 * _WIDTH, sum(len(values) for values in VALUES.values()))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits [B, values of all attributes in order] of images [B, 3, 64, 64]."""
        features = self.body(images)
        # The maximum detects small things such as companions, the mean large ones such as weather.
        pooled = torch.cat([features.mean(dim=(2, 3)), features.amax(dim=(2, 3))], dim=1)
        logits: torch.Tensor = self.head(pooled)
        return logits


def load_or_train(context: StageContext) -> Probe:
    """Return the probe of this working folder; training it takes about three minutes on one core."""
    path = context.folder(STAGE) / "probe.safetensors"
    probe = Probe()
    if not path.exists():
        _train(context, probe)
        save_file({name: value.contiguous() for name, value in probe.state_dict().items()}, path)
    probe.load_state_dict(load_file(path))
    return probe.eval()


@torch.no_grad()
def agreement(probe: Probe, images: np.ndarray, scenes: Sequence[Scene]) -> dict[str, float]:
    """Return, for each attribute, the share of images in which the probe reads the scene's value."""
    logits = torch.cat([probe(to_tensor(part)) for part in np.array_split(images, len(images) // 32 + 1)])
    wanted = _labels(scenes)
    found = torch.stack([part.argmax(dim=1) for part in _parts(logits)], dim=1)
    rates = (found == wanted).float().mean(dim=0)
    return {name: round(float(rate), 3) for name, rate in zip(ATTRIBUTES, rates, strict=True)}


def _train(context: StageContext, probe: Probe) -> None:
    torch.manual_seed(context.seed)
    images = training_images(context).load()[0]
    labels = _labels(generator_scenes(range(len(images))))
    steps = _SMOKE_STEPS if context.smoke else _STEPS
    size = _SMOKE_BATCH if context.smoke else _BATCH
    optimizer = torch.optim.AdamW(probe.parameters(), lr=_RATE, weight_decay=1e-2, fused=True)
    for step in tqdm(range(steps), desc=STAGE):
        draws = np.random.default_rng([context.seed, step])
        rows = draws.integers(0, len(images), size)
        optimizer.param_groups[0]["lr"] = learning_rate(step, steps, _RATE, warm_up=max(steps // 20, 1))
        with torch.autocast("cpu", torch.bfloat16):
            logits = probe(_degraded(to_tensor(images[rows]), draws))
        losses = [
            F.cross_entropy(part.float(), labels[rows, column]) for column, part in enumerate(_parts(logits))
        ]
        optimizer.zero_grad(set_to_none=True)
        torch.stack(losses).sum().backward()
        optimizer.step()


def _degraded(images: torch.Tensor, draws: np.random.Generator) -> torch.Tensor:
    # Generated images are softer than rendered ones, which a probe trained without blur misreads.
    if draws.random() < 0.3:
        return images
    side = int(draws.integers(22, 49))
    small = F.interpolate(images, size=side, mode="bilinear", antialias=True, align_corners=False)
    return F.interpolate(small, size=images.shape[-1], mode="bilinear", align_corners=False)


def _labels(scenes: Sequence[Scene]) -> torch.Tensor:
    rows = [[VALUES[name].index(getattr(scene, name)) for name in ATTRIBUTES] for scene in scenes]
    return torch.tensor(rows)


def _parts(logits: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.split(logits, [len(values) for values in VALUES.values()], dim=1)
