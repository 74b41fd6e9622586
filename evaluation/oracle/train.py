"""Trains the oracle: `python -m evaluation.oracle.train` (about five minutes)."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from counterpose_core.types import Estimate
from counterpose_miniature.training import figures
from counterpose_miniature.training.degradation import degrade, mirrored
from counterpose_miniature.training.fitting import Recipe, fit
from counterpose_miniature.training.publishing import write_half
from counterpose_miniature.training.rendered import as_tensor, render_all, step_generator
from counterpose_miniature.training.stage import Checkpoint, use_threads, write_atomically
from counterpose_miniature.world import UNIFORM, VALUES, Scene, render, scene_for
from counterpose_miniature.world.seeds import DEVELOPMENT, ORACLE

from .judge import Oracle
from .network import AttributeNetwork

_BATCH = 128
# No stage of the product's training uses this seed.
_SEED = 7_654_321


def main(arguments: list[str] | None = None) -> None:
    """Train, save weights.safetensors, measure and write README.md in the same folder."""
    parser = argparse.ArgumentParser(prog="evaluation.oracle.train", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder of the weights")
    parser.add_argument("--work", type=Path, default=Path(".miniature/oracle"), help="folder of checkpoints")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--images", type=int, default=24_000)
    parser.add_argument("--steps", type=int, default=900)
    given = parser.parse_args(arguments)
    use_threads(given.threads)
    for folder in (given.out, given.work):
        folder.mkdir(parents=True, exist_ok=True)
    network = _trained(given.images, given.steps, given.work)
    write_half(network, given.out / "weights.safetensors")
    found = measure(Oracle.load(given.out / "weights.safetensors"), min(2000, given.images))
    write_atomically(given.out / "README.md", _card(found).encode())
    plain = {name: figure.model_dump() for name, figure in found.items()}
    write_atomically(given.out / "figures.json", (json.dumps(plain, indent=2) + "\n").encode())


def _trained(count: int, steps: int, work: Path) -> AttributeNetwork:
    scenes = [scene_for(ORACLE, index, UNIFORM) for index in range(count)]
    images = render_all(scenes, work / "images.npy")
    torch.manual_seed(_SEED)
    network = AttributeNetwork()
    recipe = Recipe(steps=steps, rate=3e-3, weight_decay=0.05)
    fit(network, _loss(network, scenes, images), recipe, Checkpoint(work), logging.getLogger("oracle"))
    return network


def _loss(network: AttributeNetwork, scenes: Sequence[Scene], images: np.ndarray) -> Callable[[int], Tensor]:
    truth = {
        name: torch.tensor([values.index(getattr(scene, name)) for scene in scenes])
        for name, values in VALUES.items()
    }

    def loss(step: int) -> Tensor:
        generator = step_generator(_SEED, step)
        rows = torch.randint(len(images), (_BATCH,), generator=generator)
        batch = degrade(mirrored(as_tensor(images[rows.numpy()]), generator), generator)
        logits = network(batch)
        terms = [
            F.cross_entropy(logits[name], labels[rows], label_smoothing=0.02)
            for name, labels in truth.items()
        ]
        return torch.stack(terms).sum()

    return loss


def measure(oracle: Oracle, count: int) -> dict[str, Estimate]:
    """Return accuracy per attribute on uniform development scenes, as rendered and degraded."""
    scenes = [scene_for(DEVELOPMENT, index, UNIFORM) for index in range(count)]
    images = np.stack([render(scene) for scene in scenes])
    blurred = degrade(as_tensor(images), torch.Generator().manual_seed(_SEED))
    again = (255 * blurred).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    found: dict[str, Estimate] = {}
    for kind, shown in (("rendered", images), ("degraded", again)):
        seen = oracle.attributes(shown)
        for name in VALUES:
            hits = sum(each[name] == getattr(scene, name) for each, scene in zip(seen, scenes, strict=True))
            found[f"{name}, {kind}"] = figures.share(hits, count)
    return found


def _card(found: dict[str, Estimate]) -> str:
    return f"""# The oracle

Reads the seven attributes of a 64-pixel image. Its network (residual convolutions, one head an
attribute), its seed and its scenes (the oracle's own seed range, uniform, withheld combinations included)
differ from those of every served model. It takes no part in filters, choices or thresholds of the
product; only the validity measurement asks it. Train it again with `python -m evaluation.oracle.train`.

Accuracy on uniform development scenes, as rendered and with blur, rescaling, tint, compression and noise
at random:

{figures.table(found, "attribute")}
"""


if __name__ == "__main__":
    main()
