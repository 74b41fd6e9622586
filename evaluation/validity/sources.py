"""The images that classifiers are tested on: validation scenes, a separate stretch for each seed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from tqdm import tqdm

from counterpose import Client
from counterpose_core.contract.datasets import SourceUpload
from counterpose_core.images.codecs import encode_raw
from counterpose_miniature.training.bugs import Bug, as_trained
from counterpose_miniature.world.dataset import encode_png
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import DATASET, Distribution
from counterpose_miniature.world.scene import VALUES, Scene
from counterpose_miniature.world.seeds import VALIDATION, balanced_scenes

STRETCH = 100_000
FIRST = 1_000_000
"""Indices below this one are for the figures of single models and for inspection by hand."""

Habits = Literal["as-trained", "dataset"]
"""Whether a class mostly shows the value it was trained on with a bug, or all values equally often."""

_BATCH = 32


def distribution_of(habits: Habits, bugs: Iterable[Bug]) -> Distribution:
    """The distribution that sources are drawn from.

    ``as-trained``: as a user's own test set resembles the training set, each class mostly shows the value
    that some classifier leans on, so that the bug stays hidden until something is changed.

    Raises:
        ValueError: two bugs need the same class to show different values.
    """
    return DATASET if habits == "dataset" else as_trained(bugs)


def scenes_of(seed: int, count: int, distribution: Distribution) -> list[Scene]:
    """``count`` validation scenes, equally many of each class, from the seed's own stretch.

    Raises:
        ValueError: ``count`` is no multiple of the number of classes, or the seed has no stretch.
    """
    per_class, rest = divmod(count, len(VALUES["object_class"]))
    if rest or not per_class:
        raise ValueError(f"sources must be a multiple of {len(VALUES['object_class'])}, not {count!r}")
    if not 0 <= seed < (len(VALIDATION) - FIRST) // STRETCH:
        raise ValueError(f"there is no stretch of validation seeds number {seed!r}")
    return list(balanced_scenes(VALIDATION, distribution, per_class, FIRST + seed * STRETCH))


def _object_class(scene: Scene) -> str:
    return scene.object_class


def upload(
    client: Client, name: str, scenes: Sequence[Scene], label_of: Callable[[Scene], str] = _object_class
) -> None:
    """Create the dataset of ``scenes`` with their labels; repeating this changes nothing."""
    client.datasets.create(name=name)
    for start in tqdm(range(0, len(scenes), _BATCH), desc="upload"):
        batch = scenes[start : start + _BATCH]
        client.datasets.add(name, list(uploads(batch, start, label_of)))


def uploads(
    scenes: Sequence[Scene], start: int, label_of: Callable[[Scene], str] = _object_class
) -> Iterator[SourceUpload]:
    """Yield the upload of each scene's image, numbered from ``start``."""
    for number, scene in enumerate(scenes, start):
        content = base64.b64encode(encode_png(render(scene))).decode()
        yield SourceUpload(filename=f"{number:05}.png", label=label_of(scene), content_base64=content)


def image_of(scene: Scene) -> str:
    """The name that the store gives the scene's uploaded image."""
    return hashlib.sha256(encode_raw(render(scene))).hexdigest()


def by_image(scenes: Iterable[Scene]) -> dict[str, Scene]:
    """Scenes by the name of their image."""
    return {image_of(scene): scene for scene in scenes}
