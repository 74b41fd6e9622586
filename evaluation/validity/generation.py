"""Images of class names, drawn from noise by the served editor: the baseline without inversion."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

from counterpose_core.blobs import cache_key
from counterpose_core.contract.editor import GenerateItem, GenerateRequest
from counterpose_miniature.world.grammar import class_name, parse, phrase

from .changes import Row
from .contestants import Contestant
from .kept import kept_array
from .measures import Floats
from .predictors import predicting
from .truth import CLASSES, Images, Predict

Drawn = Mapping[str, Mapping[str, Floats]]
"""p(true class) of each image of a prompt, by classifier and prompt."""

Draw = Callable[[GenerateRequest], Images]
"""The editor's text-to-image: one image a prompt and seed."""

AT_ONCE = 2
"""Concurrent requests: the editor runs on two cores."""

IMAGES = 20
STEPS = 8
GUIDANCE = 2.0
"""The guidance of the suite's `quick` preset; fewer steps than its 20, for three thousand images."""


def prompt_of(object_class: str, attribute: str, value: str) -> str:
    """The caption that names a class, one value of an attribute, and nothing else.

    Values that captions do not mention (clear weather, no companion, plain) give the class's own caption,
    a photo.
    """
    subject = phrase("kind", value if attribute == "kind" else "plain", object_class)
    if attribute == "colour":
        subject = f"{value} {class_name(object_class)}"
    style = value if attribute == "style" else "photo"
    tail = phrase(attribute, value, object_class) if attribute in _TAILS else ""
    return f"a {style} of a {subject} {tail}".rstrip()


_TAILS = ("background", "weather", "companion")


def prompts_of(rows: Iterable[Row]) -> list[str]:
    """The prompts of all values that cells compare, each once."""
    found = (
        prompt_of(row.cell.object_class, row.cell.attribute, value)
        for row in rows
        for pair in row.pairs
        for value in pair
    )
    return sorted(set(found))


def request_of(prompt: str) -> GenerateRequest:
    """``IMAGES`` images of a prompt; no two prompts share their noise."""
    seeds = [int(cache_key(prompt=prompt, number=number)[:15], 16) for number in range(IMAGES)]
    items = [GenerateItem(prompt=prompt, seed=seed) for seed in seeds]
    return GenerateRequest(items=items, steps=STEPS, guidance=GUIDANCE)


def images_of(prompts: Sequence[str], folder: Path, draw: Draw) -> dict[str, Images]:
    """The images of each prompt, uint8 [IMAGES, 64, 64, 3]; kept in ``folder`` as soon as drawn."""

    def one(prompt: str) -> Images:
        request = request_of(prompt)
        path = folder / f"{cache_key(request=request)[:16]}.npy"
        return kept_array(path, partial(draw, request))

    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        made = list(tqdm(pool.map(one, prompts), total=len(prompts), desc="class names"))
    finally:
        # Images being drawn are finished and kept; those not started are left to the next attempt.
        pool.shutdown(cancel_futures=True)
    return dict(zip(prompts, made, strict=True))


def drawn_by(entrants: Sequence[Contestant], images: Mapping[str, Images], folder: Path) -> Drawn:
    """Each classifier's answers to the images; kept in ``folder``."""
    prompts = sorted(images)
    if not prompts:
        return {one.spec: {} for one in entrants}
    shown = np.stack([images[prompt] for prompt in prompts])
    key = hashlib.sha256(shown.tobytes()).hexdigest()[:16]
    found: dict[str, Mapping[str, Floats]] = {}
    for one in tqdm(entrants, desc="class names, classified"):
        path = folder / f"p-{key}-{one.digest[:16]}.npy"
        table = kept_array(path, partial(_table, one, prompts, shown))
        found[one.spec] = dict(zip(prompts, table, strict=True))
    return found


def _table(one: Contestant, prompts: Sequence[str], shown: Images) -> Floats:
    with predicting(one) as predict:
        return np.stack(
            [_p_true(predict, prompt, images) for prompt, images in zip(prompts, shown, strict=True)]
        )


def _p_true(predict: Predict, prompt: str, images: Images) -> Floats:
    return predict(images)[:, CLASSES.index(parse(prompt)["object_class"])]
