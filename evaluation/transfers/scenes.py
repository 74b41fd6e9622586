"""The real images: wild scenes that may fool a classifier, and usual ones to compare with."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.datasets import Source
from counterpose_core.images.codecs import encode_raw
from counterpose_core.images.packing import pack
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import DATASET, UNIFORM, Distribution
from counterpose_miniature.world.scene import VALUES
from counterpose_miniature.world.seeds import VALIDATION, balanced_scenes
from evaluation.validity.sources import FIRST, STRETCH

CLASSES = VALUES["object_class"]
WILD, USUAL = "wild", "usual"
_STRETCHES = {WILD: 70, USUAL: 71}
_DISTRIBUTIONS: dict[str, Distribution] = {WILD: UNIFORM, USUAL: DATASET}
"""As ImageNet-A to ImageNet's test set: every combination of class and circumstance, and the usual ones."""


def rendered(name: str, per_class: int) -> tuple[np.ndarray, list[str]]:
    """Render a dataset: images uint8 [n, 64, 64, 3] and their labels, equally many of each class."""
    first = FIRST + _STRETCHES[name] * STRETCH
    scenes = list(balanced_scenes(VALIDATION, _DISTRIBUTIONS[name], per_class, first))
    return np.stack([render(scene) for scene in scenes]), [scene.object_class for scene in scenes]


def stored(images: np.ndarray, labels: Sequence[str], store: BlobStore) -> list[Source]:
    """Store images as a dataset's sources; storing them again changes nothing."""
    found = []
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        ref = hashlib.sha256(encode_raw(image)).hexdigest()
        if not store.exists(ref):
            store.put_packed(pack(image))
        found.append(
            Source(
                id=cache_key(image=ref, label=label),
                image=ref,
                label=label,
                filename=f"{number:05}.png",
                width=image.shape[1],
                height=image.shape[0],
            )
        )
    return found
