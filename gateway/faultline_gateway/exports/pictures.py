"""The pictures of an export, one at a time: their names, their rows and their marked bytes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from faultline_core.errors import StorageError
from faultline_gateway.exports.inventory import Inventory
from faultline_gateway.exports.records import SOURCE_TYPES, Record, columns
from faultline_gateway.marks import synthetic_marks
from faultline_gateway.pictures import marked_png
from faultline_gateway.workflows.attempt import Store

Progress = Callable[[int, int], None]
"""Called after each picture with how many are written and are in all; what it raises ends the export."""

_SHOWN_OF_REF = 16


@dataclass(frozen=True)
class Picture:
    """A picture ready to be written: a path of safe names, unique in the export, its row and its PNG."""

    path: str
    row: dict[str, object]
    png: bytes


def pictures(inventory: Inventory, store: Store, progress: Progress | None) -> Iterator[Picture]:
    """Yield the pictures in the inventory's order; none is read before the last one is taken.

    Raises:
        ArtifactMissing: the store has no such picture; the class, shift and seed are named.
        ArtifactCorrupt: the stored bytes no longer match their digest.
    """
    taken: Counter[str] = Counter()
    for number, record in enumerate(inventory, start=1):
        row = columns(record, inventory.scores)
        yield Picture(_path(record, inventory, taken), row, _png(record, row, store))
        if progress is not None:
            progress(number, inventory.pictures)


def _path(record: Record, inventory: Inventory, taken: Counter[str]) -> str:
    folder = f"{inventory.shift_folders[record.shift]}/{inventory.class_folders[record.class_name]}"
    name = record.picture[:_SHOWN_OF_REF] if record.seed is None else str(record.seed)
    taken[f"{folder}/{name}"] += 1
    # Sources that stand side by side share their seeds.
    again = taken[f"{folder}/{name}"]
    return f"{folder}/{name}.png" if again == 1 else f"{folder}/{name}-{again}.png"


def _png(record: Record, row: dict[str, object], store: Store) -> bytes:
    # In ASCII, as other readers know no more of a text chunk.
    provenance = {"artifact": record.picture, "faultline-provenance": json.dumps(row, allow_nan=False)}
    source_type = SOURCE_TYPES.get(record.origin)
    marks = provenance if source_type is None else synthetic_marks(source_type, **provenance)
    try:
        return marked_png(record.picture, store, marks)
    except StorageError as error:
        raise type(error)(f"{error.detail} ({record})") from error
