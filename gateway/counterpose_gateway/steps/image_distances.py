"""How far sets of images are from real ones in CLIP's features, as a part of a summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from counterpose_core.contract.features import FeatureVector
from counterpose_core.contract.realism import RealismRow, RealismSummary
from counterpose_core.images.realism import (
    Refused,
    frechet_corrected,
    frechet_distance,
    halves,
    kernel_distance,
)
from counterpose_core.statistics.bootstrap import Floats
from counterpose_gateway.runs.seeds import derive_seed

MOST_IMAGES = 2000
"""Of a larger set a random part is measured: the cost of a distance grows with the number of images."""


def image_distances(
    real: Sequence[FeatureVector], sets: Mapping[str, Sequence[FeatureVector]], *, network: str, seed: int
) -> RealismSummary | None:
    """Measure each set of images against real ones; None where there are no real ones.

    Args:
        real: features of real images, at unit length.
        sets: features of the images of each set, by its name.
        network: the network whose features they are.
        seed: the seed of the run.
    """
    if not real:
        return None
    width = real[0].width

    def of_set(name: str, features: Sequence[FeatureVector]) -> Floats:
        generator = np.random.default_rng(derive_seed(seed, "distances", name, "images"))
        return _scaled([each for each in features if each.width == width], width, generator)

    originals = of_set("real", real)
    floor = np.random.default_rng(derive_seed(seed, "distances", "floor"))
    return RealismSummary(
        network=network,
        width=width,
        n_originals=len(originals),
        floor=distances(*halves(originals, floor), floor),
        rows={
            name: distances(
                originals, of_set(name, features), np.random.default_rng(derive_seed(seed, "distances", name))
            )
            for name, features in sets.items()
            if features
        },
    )


def distances(real: Floats, generated: Floats, generator: np.random.Generator) -> RealismRow:
    """Return both distances of a set of images (m, d) from real ones (n, d); each image is its own source."""
    kernel = kernel_distance(real, generated, generator)
    frechet = frechet_distance(real, generated)
    corrected = frechet_corrected(real, generated, generator)
    return RealismRow(
        kernel=None if isinstance(kernel, Refused) else kernel,
        no_kernel=kernel.reason if isinstance(kernel, Refused) else "",
        frechet=None if isinstance(frechet, Refused) else frechet.distance,
        frechet_corrected=None if isinstance(corrected, Refused) else corrected,
        no_frechet=frechet.reason if isinstance(frechet, Refused) else "",
        n_images=len(generated),
        n_sources=len(generated),
    )


def _scaled(features: Sequence[FeatureVector], width: int, generator: np.random.Generator) -> Floats:
    chosen = np.arange(len(features))
    if len(features) > MOST_IMAGES:
        chosen = np.sort(generator.choice(chosen, MOST_IMAGES, replace=False))
    rows = [features[place].numbers() for place in chosen.tolist()]
    # For unit vectors x·y/d is so small that the kernel would compare only means.
    return np.array(rows, dtype=np.float64).reshape(-1, width) * math.sqrt(width)
