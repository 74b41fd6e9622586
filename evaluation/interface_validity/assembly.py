"""Makes the report of the validated stretches: `results/interface-validity.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_miniature.world.user_dataset import MISMATCHED_CLASSES

from .aims import aims
from .confounding_figures import confounding_figures
from .cost_figures import Booked, cost_figures
from .filter_figures import filter_figures, verdicts
from .fine_grained_figures import fine_grained_figures
from .fine_grained_images import FineGrained
from .image_source_figures import image_source_comparison
from .images import Image, ImageSource, Layout, placed
from .impact_figures import impact_figures
from .report import BatchingFigures, InterfaceValidity

Features = Mapping[str, NDArray[np.floating]]


@dataclass(frozen=True)
class Pieces:
    """Everything a report is made from.

    ``real_features`` are CLIP's (n, d) of real images that no token was learned from, by class,
    ``base_features`` those of each source's base images.
    """

    seeds: list[int]
    layout: Layout
    truth: ModelAnswers
    images: Sequence[Image]
    real_features: Features
    base_features: Mapping[ImageSource, Features]
    tokens: Sequence[Booked]
    batching: BatchingFigures
    seconds: Mapping[str, float]
    fine_grained: FineGrained | None = None


def report(pieces: Pieces, generator: np.random.Generator) -> InterfaceValidity:
    """Return the report with every figure."""
    layout = pieces.layout
    token, name = (placed(pieces.images, image_source, layout) for image_source in ("token", "class-name"))
    judged = {"token": verdicts(token), "class-name": verdicts(name)}
    kept: dict[ImageSource, NDArray[np.bool_]] = {
        "token": judged["token"].kept,
        "class-name": judged["class-name"].kept,
    }
    filtered = token.answers(kept["token"]), name.answers(kept["class-name"])
    confounded = confounding_figures(pieces.truth, *filtered, MISMATCHED_CLASSES, generator)
    image_sources = image_source_comparison(
        pieces.images, pieces.real_features, pieces.base_features, generator
    )
    impact = {
        "token": impact_figures(filtered[0], pieces.truth, generator),
        "class-name": impact_figures(filtered[1], pieces.truth, generator),
        "token, unfiltered": impact_figures(token.answers(), pieces.truth, generator),
    }
    codes = pieces.fine_grained
    # A generator of its own: the other figures are the same with or without this one.
    fine = None if codes is None else fine_grained_figures(codes, generator.spawn(1)[0])
    return InterfaceValidity(
        seeds=pieces.seeds,
        classes=list(layout.classes),
        mismatched=list(MISMATCHED_CLASSES),
        models=list(layout.models),
        shifts=list(layout.conditions[1:]),
        confounding=confounded,
        unfiltered=confounding_figures(
            pieces.truth, token.answers(), name.answers(), MISMATCHED_CLASSES, generator
        ),
        image_sources=image_sources,
        impact=impact,
        filter={
            "token": filter_figures(token, judged["token"]),
            "class-name": filter_figures(name, judged["class-name"]),
        },
        cost=cost_figures(pieces.tokens, {"token": token, "class-name": name}, kept, generator),
        batching=pieces.batching,
        fine_grained=fine,
        aims=aims(confounded, MISMATCHED_CLASSES, image_sources, impact["token"], pieces.batching),
        seconds=dict(pieces.seconds),
    )
