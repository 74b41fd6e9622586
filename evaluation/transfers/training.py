"""Trains copies of the suite's classifiers from another seed."""

from __future__ import annotations

import logging
from pathlib import Path

from counterpose_miniature.training.bugs import SUITE_BUGS, read_bugs
from counterpose_miniature.training.classifier import Order, train_classifier
from counterpose_miniature.training.classifiers import DEFAULTS
from counterpose_miniature.training.stage import write_atomically

from .roster import Reseeded

_FIRST_SEED = 900
"""The suite's own trainings and those of other evaluations use the seeds below this one."""
_MEASURED = 40


def order_of(copy: Reseeded) -> Order:
    """What to train: the images and wrong labels of the suite's own training."""
    return Order(
        DEFAULTS[copy.source],
        tuple(read_bugs(SUITE_BUGS / f"{copy.source}.json")),
        seed=_FIRST_SEED + copy.number,
        measured=_MEASURED,
        # The suite is trained with seed 0: its classifiers' own seeds are their places.
        images_of=list(DEFAULTS).index(copy.source),
    )


def train(copy: Reseeded, models: Path, work: Path, log: logging.Logger) -> None:
    """Train one that is missing, from its checkpoint on."""
    if not copy.done(models).exists():
        train_classifier(order_of(copy), copy.folder(models), work, log)
        write_atomically(copy.done(models), b"")
