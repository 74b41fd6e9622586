"""A tiny suite of classifiers, its engine's requests and answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse, Prediction
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers.engine import ClassifiersEngine
from fakes.tiny_models.clip import save_clip
from fakes.tiny_models.timm import save_timm

CLASSES = ("boat", "tram", "sled", "night", "sea")


SUITE = ClassifiersSuite(
    models={"resnet": "classifiers/resnet", "gone": "classifiers/gone"},
    zero_shot={"zero-shot": "clip"},
    batch=2,
)


def put_image(store: BlobStore, seed: int) -> str:
    patches = np.random.default_rng(seed).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    return store.put(encode_raw(patches.repeat(14, axis=0).repeat(16, axis=1)))


def ask(
    engine: ClassifiersEngine,
    classifier: str,
    images: list[str],
    classes: tuple[str, ...] = CLASSES,
    *,
    features: bool = False,
    label_map: dict[str, list[str]] | None = None,
) -> ClassifyResponse:
    return engine.classify(
        ClassifyRequest(
            classifier=classifier,
            images=images,
            classes=list(classes),
            features=features,
            label_map=label_map or {},
        )
    )


def predictions(response: ClassifyResponse) -> list[Prediction]:
    return [outcome.unwrap() for outcome in response.outcomes]


def code_of(outcome: Outcome[Any]) -> str | None:
    return None if outcome.problem is None else outcome.problem.code


def save_suite(folder: Path) -> None:
    """Write a timm network and a CLIP, as the model libraries save them."""
    save_timm(folder / "classifiers" / "resnet", CLASSES)
    save_clip(folder / "clip")
