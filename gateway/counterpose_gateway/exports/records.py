"""One image of an export, and the columns of its row.

The classifiers' answers of an exported image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from counterpose_core.contract.base import Text
from counterpose_core.contract.recipes import ImageRef, PixelDigest, is_recipe
from counterpose_core.contract.scored import Scored
from counterpose_core.types import Seed
from counterpose_gateway.images.png import DIGITAL_SOURCE_TYPE, GENERATED_SOURCE_TYPE, OPERATION_SOURCE_TYPE

Origin = Literal["generated", "edited", "operation", "photograph"]
"""Whether a model made the image or edited it, an operation without any network changed it, or nothing did (a
user's own or a retrieved image, also at its working size)."""

KEPT = "kept"
"""The verdict on an image that no filter dropped."""

SOURCE_TYPES: dict[Origin, str] = {
    "generated": GENERATED_SOURCE_TYPE,
    "edited": DIGITAL_SOURCE_TYPE,
    "operation": OPERATION_SOURCE_TYPE,
}
"""IPTC's term for images made here; it is unknown for photographs that users provide."""


class Answer(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """What a classifier answers for an image, and the probability that it gives the answer."""

    label: str
    probability: float


class Source(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """The image that a counterfactual was made from, and what was changed; of an operation, its control.

    ``changed`` is the kind of change, ``removed`` and ``added`` are its words; ``answers`` are the
    classifiers', by name.
    """

    image: ImageRef
    caption: str
    changed: str
    removed: str = ""
    added: str = ""
    answers: dict[str, Answer] = {}


class Record(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """One image by reference, or by its recipe, with everything needed to make it again and to trace it.

    ``image_source`` says where the image comes from ("token", "class-name", "edit", ...), ``bundle`` names
    the learned tokens, ``model`` is ``id@revision``, ``verdict`` is ``kept`` or the filter that dropped
    the image. ``answers`` are the classifiers', by name; ``source`` is what a counterfactual was made from.
    ``item`` is its id in the run, which content credentials name; ``pixels`` is the digest of what a recipe
    made when it was answered. ``repeatable`` is false of an image of a server that takes no seed.
    """

    image: ImageRef
    class_name: Text
    shift: Text
    image_source: Text
    run: Text
    prompt: Text | None = None
    seed: Seed | None = None
    model: Annotated[str, Field(pattern=r"^[^@]+@[^@]+$")] | None = None
    bundle: Text | None = None
    scores: dict[str, float | None] = {}
    verdict: Text = KEPT
    origin: Origin = "generated"
    answers: dict[str, Answer] = {}
    source: Source | None = None
    item: Text | None = None
    pixels: PixelDigest | None = None
    repeatable: bool = True

    @model_validator(mode="after")
    def _can_be_made_again(self) -> Record:
        if self.origin == "operation":
            if not is_recipe(self.image):
                raise ValueError(f"the image {self.image!r} of an operation has no recipe")
            return self
        made_by: dict[str, object] = {"prompt": self.prompt, "model": self.model}
        if self.repeatable:
            made_by["seed"] = self.seed
        missing = [name for name, value in made_by.items() if value is None]
        if missing and self.origin != "photograph":
            raise ValueError(f"the synthetic image {self.image!r} has no {' and no '.join(missing)}")
        return self

    def __str__(self) -> str:
        shown = f"class {self.class_name!r}, shift {self.shift!r}, image source {self.image_source!r}"
        return f"{shown}, seed {self.seed}"


@dataclass(frozen=True)
class Column:
    """A column's type, as Arrow and Hugging Face name it, and its meaning."""

    dtype: str
    meaning: str


SCORES = "scores"
COLUMNS: dict[str, Column] = {
    "class_name": Column("string", "the class that the image should show"),
    "shift": Column("string", "the change that the image should show, or `base`"),
    "image_source": Column(
        "string", "where the image comes from: a learned token, the class name, an edit, ..."
    ),
    "prompt": Column("string", "the prompt; empty for a photograph"),
    "seed": Column(
        "int64", "the seed of the starting noise; null for a photograph, and where a server takes none"
    ),
    "model": Column("string", "the generator and its revision; empty for a photograph"),
    "bundle": Column("string", "the bundle of learned tokens; empty where none was used"),
    "verdict": Column("string", "`kept`, or the filter that dropped the image"),
    "kept": Column("bool", "whether the image passed every filter"),
    "run": Column("string", "the Counterpose run that made the image"),
    "artifact": Column(
        "string", "SHA-256 of the stored image that was scored, or the recipe that made it of one"
    ),
    "origin": Column("string", "`generated`, `edited` or `photograph`"),
    "synthetic": Column("bool", "whether a model or an operation made or changed the image"),
    "digital_source_type": Column("string", "IPTC's term for how the image was made; empty for a photograph"),
}
"""All columns but ``SCORES``, which holds a number for each score by its name."""


CHANGE_FIELDS = {
    "caption": "the caption of the source image",
    "changed": "the kind of change",
    "removed": "the words that the edit removes",
    "added": "the words that the edit adds",
}
"""Fields of a counterfactual beside the columns, with their meaning."""


def columns(record: Record, scores: Sequence[str]) -> dict[str, object]:
    """Return the row of ``record``, with a value or None for every one of ``scores``."""
    row: dict[str, object] = {
        "class_name": record.class_name,
        "shift": record.shift,
        "image_source": record.image_source,
        # Readers of JSON lines infer a column's type from its first rows: null texts there break them.
        "prompt": record.prompt or "",
        "seed": record.seed,
        "model": record.model or "",
        "bundle": record.bundle or "",
        "verdict": record.verdict,
        "kept": record.verdict == KEPT,
        "run": record.run,
        "artifact": record.image,
        "origin": record.origin,
        "synthetic": record.origin in SOURCE_TYPES,
        "digital_source_type": SOURCE_TYPES.get(record.origin, ""),
    }
    # Parquet does not support a struct without fields.
    return row | ({SCORES: {name: record.scores.get(name) for name in scores}} if scores else {})


def answers_of(predictions: Mapping[str, Scored]) -> dict[str, Answer]:
    """Return each classifier's most probable class, by the classifier's name."""
    return {
        name: Answer(label=found.answer, probability=found.share)
        for name, found in predictions.items()
        if found.shown
    }
