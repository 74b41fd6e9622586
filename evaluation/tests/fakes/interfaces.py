"""A synthetic benchmark of a dataset interface with known truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.types import Cost
from evaluation.interface_validity.images import Image, ImageSource, Layout
from evaluation.interface_validity.world_shifts import BY_NAME

SNOW, NIGHT = "in the snow", "a photo of a … on the grass at night"
LAYOUT = Layout((BASE, SNOW, NIGHT), ("plate", "bus"), ("weak", "strong", "middling"))
SEEDS = 40


def seen(class_name: str, shift: str = BASE, **values: str) -> dict[str, str]:
    """What an oracle sees in a good image, with the given ``values`` instead."""
    shown = {} if shift == BASE else {BY_NAME[shift].attribute: BY_NAME[shift].value}
    plain = {"object_class": class_name, "kind": "plain", "colour": "red", "background": "grass"}
    return plain | {"weather": "clear", "style": "photo", "companion": "none"} | shown | values


def image(
    image_source: ImageSource = "token",
    class_name: str = "plate",
    shift: str = BASE,
    seed: int = 0,
    **changes: object,
) -> Image:
    """One image that shows what it should, and that every model gets right."""
    known: dict[str, object] = {
        "to_object": 0.6,
        "right": dict.fromkeys(LAYOUT.models, True),
        "seen": seen(class_name, shift),
        "group": f"{image_source} {class_name} {shift}",
        "cost": Cost(unet_evaluations=16, seconds=0.2),
    }
    return Image(
        id=f"{image_source} {class_name} {shift} {seed}",
        image_source=image_source,
        class_name=class_name,
        shift=shift,
        seed=seed,
        **known | changes,  # type: ignore[arg-type]  # by name, as Image has them
    )


Accuracy = Callable[[str, str, int], float]
"""The accuracy of the numbered model on a condition and a class."""


def images(image_source: ImageSource, accuracy: Accuracy, seeds: Iterable[int] = range(SEEDS)) -> list[Image]:
    """Images of which the models get the given shares right, as exactly as the number of seeds allows."""
    numbers = list(seeds)
    return [
        image(
            image_source,
            name,
            shift,
            seed,
            right={
                model: place < round(accuracy(shift, name, number) * len(numbers))
                for number, model in enumerate(LAYOUT.models)
            },
        )
        for shift in LAYOUT.conditions
        for name in LAYOUT.classes
        for place, seed in enumerate(numbers)
    ]


def answers(accuracy: Accuracy, count: int = 200) -> ModelAnswers:
    """The same accuracies as answers to renderings."""
    shape = (len(LAYOUT.conditions), len(LAYOUT.classes), count)
    values = np.zeros((*shape, len(LAYOUT.models)), dtype=np.bool_)
    for place in np.ndindex(shape[0], shape[1], len(LAYOUT.models)):
        share = accuracy(LAYOUT.conditions[place[0]], LAYOUT.classes[place[1]], place[2])
        values[place[0], place[1], : round(share * count), place[2]] = True
    made = np.ones(shape, dtype=np.bool_)
    return ModelAnswers(LAYOUT.models, LAYOUT.conditions, LAYOUT.classes, values, made, made)
