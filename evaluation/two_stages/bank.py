"""A bank of outcomes: what came of each item, so that runs that share an item make it once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from counterpose_core.blobs import cache_key
from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.types import EditType, ItemKind, ItemState
from evaluation.former_names import renamed

_OTHER_REQUEST = frozenset(
    {
        "dataset",
        "classifiers",
        "functions",
        "limit",
        "exclude",
        "confirm",
        "confirm_share",
        "lance_r_edits_per_image",
        "interventions",
    }
)
"""Fields of a request that no single image depends on: an item's outcome has every classifier's answers."""
_OTHER_CONFIG = frozenset(
    {
        "suite",
        "versions",
        "dataset_digest",
        "classes",
        "excluded",
        "confirmation",
        "redraw",
        "proof",
        "baseline",
        "notes",
    }
)
"""No image depends on these: a baseline is about the classifiers, and a note is words for the user."""


class Asked(Protocol):
    """An item as it was planned, or as it is after it ended."""

    @property
    def kind(self) -> ItemKind: ...
    @property
    def item_group(self) -> str: ...
    @property
    def source_image(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def edit_type(self) -> EditType | None: ...
    @property
    def slot(self) -> int: ...


class Outcome(BaseModel):
    """What came of one item; ``result`` holds no predictions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ItemState
    reason: str | None = None
    code: str | None = None
    detail: str | None = None
    result: Annotated[ItemResult | None, BeforeValidator(renamed)] = None


class _Line(BaseModel):
    key: str
    outcome: Outcome


def outcome_key(item: Asked, instruction: Instruction | None, config: StressTestConfig) -> str:
    """The key of an item's outcome: everything that the image depends on, but neither run nor classifiers.

    The caption is written by the captioner from the source image, so it depends on what the key has.
    """
    asked = Instruction() if instruction is None else instruction
    drawn: dict[str, Any] = {"redraw": config.redraw} if asked.draw is not None else {}
    if asked.conjunction is not None:
        # Each of its images has noise of its own.
        drawn |= {"shows": asked.conjunction.shows, "second": asked.second_wording}
    request = config.request.model_dump(mode="json", exclude=set(_OTHER_REQUEST))
    # Names of fields are hashed: under today's name for the sweep every outcome would be made again.
    request["self_replace"] = request.pop("strength")
    return cache_key(
        source=item.item_group,
        image=item.source_image,
        label=item.label,
        kind=item.kind,
        edit_type=item.edit_type,
        # The slot of a confirmation only numbers its hypothesis in the run.
        slot=0 if item.kind == "confirmation" else item.slot,
        wording=None if asked.wording is None else asked.wording.model_dump(mode="json"),
        draw=asked.draw,
        request=request,
        config=config.model_dump(mode="json", exclude={"request", *_OTHER_CONFIG}),
        **drawn,
    )


class Bank:
    """Outcomes by key, appended to one file; a line that a kill cut short is left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = {line.key: line.outcome for line in _lines(path)}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __getitem__(self, key: str) -> Outcome:
        return self._known[key]

    def add(self, outcomes: Mapping[str, Outcome]) -> None:
        """Keep outcomes, durably, unless they are known."""
        new = {key: outcome for key, outcome in outcomes.items() if key not in self._known}
        if not new:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            for key, outcome in new.items():
                # A line of its own even after a line that was cut short.
                file.write(b"\n" + _Line(key=key, outcome=outcome).model_dump_json().encode())
            file.flush()
            os.fsync(file.fileno())
        self._known |= new


def _lines(path: Path) -> Iterator[_Line]:
    for text in path.read_bytes().split(b"\n") if path.exists() else []:
        try:
            if text:
                yield _Line.model_validate_json(text)
        except ValidationError:
            continue


def without_predictions(result: ItemResult | None) -> ItemResult | None:
    """A result as the bank keeps it."""
    nothing: dict[str, Any] = {"predictions": {}, "original_predictions": {}}
    return None if result is None else result.model_copy(update=nothing)
