"""The fine-grained dataset through the product: its codes learned from one word, and drawn under shifts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
from pydantic import TypeAdapter
from tqdm import tqdm

from counterpose import DatasetInterface, GeneratedImage
from counterpose_core.blobs import cache_key
from counterpose_core.contract.dataset_interfaces import TokenItem
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.suite import load_suite
from counterpose_core.text.class_prompts import fill
from evaluation.interface_validity.fine_grained_world import (
    FINE_CLASSES,
    INITIALISER,
    code_of,
    fine_grained_scenes,
)
from evaluation.oracle import Oracle
from evaluation.validity.judging import decoded
from evaluation.validity.kept import kept
from evaluation.validity.order import scenes_key
from evaluation.validity.roster import SUITE
from evaluation.validity.running import DATASET
from evaluation.validity.serving import Service
from evaluation.validity.sources import upload
from evaluation.validity.truth import Images

from .fine_grained_images import FINE_SHIFTS, FineGrained, FineImage, FineImageSource, words_of
from .order import Order
from .runs import finished
from .world_shifts import BASE_PROMPT

_TOKENS = TypeAdapter(list[TokenItem])
_IMAGES = TypeAdapter(list[FineImage])
_CONDITIONS = {BASE: BASE_PROMPT, **{shift.name: shift.text for shift in FINE_SHIFTS}}
"""The shift that the product is asked for, by condition."""


def fine_grained(order: Order, service: Service) -> FineGrained:
    """Learn a token of each code, draw all codes by every image source, and judge the images.

    Raises:
        RuntimeError: a code has no token.
    """
    folder = order.folder / f"fine-grained-{order.interface_key()}"
    tokens = kept(folder / "tokens.json", _TOKENS, lambda: _learned(order, service, folder))
    made: list[FineImage] = []
    for code in FINE_CLASSES:
        draw = partial(_drawn, order, service, folder, code)
        of_code: list[FineImage] = kept(folder / _images_file(order, code), _IMAGES, draw)
        made += of_code
    return FineGrained(made, {item.label: [_share(item)] for item in tokens})


def begin_fine_interface(order: Order, service: Service) -> DatasetInterface:
    """Start learning the codes, all from one shared word; a repeated call returns the same run."""
    client = service.client()
    scenes = list(fine_grained_scenes(order.split, order.number, order.learned))
    name = f"{DATASET}fine-{scenes_key(scenes)}"
    upload(client, name, scenes, label_of=code_of)
    return client.dataset_interfaces.create(
        dataset=name,
        token_init=INITIALISER,
        prompts="captions",
        steps=order.steps,
        seed=order.number,
        idempotency_key=f"validity-fine-{order.split.name}-{order.number}-{order.interface_key()}",
    )


def _learned(order: Order, service: Service, folder: Path) -> list[TokenItem]:
    client = service.client()
    begin = partial(begin_fine_interface, order, service)
    run = finished(client, folder / "interface.json", client.dataset_interfaces, begin)
    items = list(run.items())
    for item in items:
        _share(item)
    return items


def _share(item: TokenItem) -> float:
    if item.result is None:
        raise RuntimeError(f"{item.label!r} has no token: {item.detail}")
    return item.result.interpolation_weight


def _images_file(order: Order, code: str) -> str:
    asked = cache_key(images=order.images, conditions=_CONDITIONS)
    return f"{code}-{asked[:16]}.json"


def _drawn(order: Order, service: Service, folder: Path, code: str) -> list[FineImage]:
    """All images of a code; those of one position share their noise across conditions and image sources."""
    run_id = (folder / "interface.json").read_text(encoding="utf-8").strip('"')
    interface, look = service.client().dataset_interfaces.get(run_id), Oracle.load().attributes
    found: list[FineImage] = []
    for name, text in tqdm(_CONDITIONS.items(), desc=code):
        by_token = interface.generate(class_name=code, shift=text, n=order.images, seed=order.number)
        for image_source in get_args(FineImageSource):
            seen = look(_pixels(service, image_source, code, by_token))
            pairs = zip(by_token, seen, strict=True)
            found += [FineImage(image_source, code, name, one.seed, dict(each)) for one, each in pairs]
    return found


def _pixels(
    service: Service, image_source: FineImageSource, code: str, by_token: Sequence[GeneratedImage]
) -> Images:
    words = words_of(image_source, code)
    if words is None:
        return np.stack([decoded(one.image_bytes()) for one in by_token])
    # Without a token the product would say the class's name, and a code is no word.
    items = [GenerateItem(prompt=fill(one.prompt, words), seed=one.seed) for one in by_token]
    return service.draw(load_suite(SUITE).editor.generation.request(items))
