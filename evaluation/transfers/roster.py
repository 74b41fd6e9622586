"""The classifiers: the suite's four, and a copy of one of them from another seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evaluation.paths import SUITE_WEIGHTS

Relation = Literal["chosen", "reseeded", "same-architecture", "other-architecture"]
"""What a classifier is to the one whose failures chose the images: itself; its copy, trained on the same
images and wrong labels with other initial weights and batches; the same network, taught other bugs or none;
or another network, taught other bugs or none."""

SOURCES = ("unbiased-resnet", "leaning-resnet", "leaning-vit", "leaning-convnext")
_DONE = "reseeded.txt"


@dataclass(frozen=True)
class Reseeded:
    """A copy of a classifier of the suite, trained on the same images and wrong labels from another seed."""

    name: str
    source: str
    number: int

    @property
    def spec(self) -> str:
        """Its name in requests."""
        return f"local:{self.name}"

    def folder(self, models: Path) -> Path:
        """Where it is kept."""
        return models / self.name

    def done(self, models: Path) -> Path:
        """The file that says that it was trained to the end."""
        return self.folder(models) / _DONE


COPIES = (Reseeded("leaning-resnet-reseeded", "leaning-resnet", 0),)
COLUMNS = (*SOURCES, *(each.spec for each in COPIES))


def columns_of(models: Path) -> list[str]:
    """Who is shown the images: the suite's, and the copies that are trained."""
    return [*SOURCES, *(each.spec for each in COPIES if each.done(models).exists())]


def relation(row: str, column: str) -> Relation:
    """What the classifier of a column is to the source of a row."""
    if row == column:
        return "chosen"
    if any(each.spec == column and each.source == row for each in COPIES):
        return "reseeded"
    return "same-architecture" if architecture_of(row) == architecture_of(column) else "other-architecture"


def architecture_of(column: str) -> str:
    """The network of a classifier."""
    name = next((each.source for each in COPIES if each.spec == column), column)
    config = json.loads((SUITE_WEIGHTS / "classifiers" / name / "config.json").read_bytes())
    return str(config["architecture"])


def folder_of(column: str, models: Path) -> Path:
    """The folder of a classifier's weights."""
    copy = next((each for each in COPIES if each.spec == column), None)
    return SUITE_WEIGHTS / "classifiers" / column if copy is None else copy.folder(models)
