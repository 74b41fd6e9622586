"""What an export knows of one picture, and the columns that this becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from faultline_core.contract.base import Text
from faultline_core.types import BlobRef, Seed
from faultline_gateway.marks import DIGITAL_SOURCE_TYPE, GENERATED_SOURCE_TYPE

Origin = Literal["generated", "edited", "photograph"]
"""Whether a model made the picture, changed one, or had no part in it: a user's own, a retrieved one."""

KEPT = "kept"
"""The verdict on a picture that no filter dropped."""

SOURCE_TYPES: dict[Origin, str] = {"generated": GENERATED_SOURCE_TYPE, "edited": DIGITAL_SOURCE_TYPE}
"""IPTC's word for what was made here; nobody knows it of a photograph that was brought."""


class Record(BaseModel):
    """One picture by reference, with all that it takes to make it again and to trace it.

    ``source`` tells what stood for the class ("token", "class-name", ...), ``bundle`` which learned tokens,
    ``model`` is ``id@revision``, ``verdict`` is ``kept`` or the reason of the filter that dropped it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    picture: BlobRef
    class_name: Text
    shift: Text
    source: Text
    run: Text
    prompt: Text | None = None
    seed: Seed | None = None
    model: Annotated[str, Field(pattern=r"^[^@]+@[^@]+$")] | None = None
    bundle: Text | None = None
    scores: dict[str, float | None] = {}
    verdict: Text = KEPT
    origin: Origin = "generated"

    @model_validator(mode="after")
    def _can_be_made_again(self) -> Record:
        made_by = {"prompt": self.prompt, "seed": self.seed, "model": self.model}
        missing = [name for name, value in made_by.items() if value is None]
        if missing and self.origin != "photograph":
            raise ValueError(
                f"the picture {self.picture!r} was made here and has no {' and no '.join(missing)}"
            )
        return self

    def __str__(self) -> str:
        return f"class {self.class_name!r}, shift {self.shift!r}, source {self.source!r}, seed {self.seed}"


@dataclass(frozen=True)
class Column:
    """A column's type, as Arrow and Hugging Face name it, and what it tells."""

    dtype: str
    meaning: str


SCORES = "scores"
COLUMNS: dict[str, Column] = {
    "class_name": Column("string", "the class that the picture shall show"),
    "shift": Column("string", "what was changed about it"),
    "source": Column("string", "what stood for the class: a learned token, its name, ..."),
    "prompt": Column("string", "the prompt; empty for a photograph"),
    "seed": Column("int64", "the seed of the starting noise; null for a photograph"),
    "model": Column("string", "the generator and its revision; empty for a photograph"),
    "bundle": Column("string", "the bundle of learned tokens; empty where none was used"),
    "verdict": Column("string", "`kept`, or the filter that dropped the picture"),
    "kept": Column("bool", "whether every filter let it pass"),
    "run": Column("string", "Faultline's run that made it"),
    "artifact": Column("string", "SHA-256 of the stored picture that was scored"),
    "origin": Column("string", "`generated`, `edited` or `photograph`"),
    "synthetic": Column("bool", "whether a model made or changed it"),
    "digital_source_type": Column("string", "IPTC's word for that; empty for a photograph"),
}
"""All columns but ``SCORES``, which holds a number for each score by its name."""


def columns(record: Record, scores: Sequence[str]) -> dict[str, object]:
    """Return the row of ``record``, with a value or None for every one of ``scores``."""
    row: dict[str, object] = {
        "class_name": record.class_name,
        "shift": record.shift,
        "source": record.source,
        # Readers of JSON lines take a column's type from its first rows: texts null there break them.
        "prompt": record.prompt or "",
        "seed": record.seed,
        "model": record.model or "",
        "bundle": record.bundle or "",
        "verdict": record.verdict,
        "kept": record.verdict == KEPT,
        "run": record.run,
        "artifact": record.picture,
        "origin": record.origin,
        "synthetic": record.origin in SOURCE_TYPES,
        "digital_source_type": SOURCE_TYPES.get(record.origin, ""),
    }
    # Parquet knows no struct without fields.
    return row | ({SCORES: {name: record.scores.get(name) for name in scores}} if scores else {})
