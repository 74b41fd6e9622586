"""The images of an export, one at a time: their names, their rows and their marked bytes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from faultline_core.errors import StorageError
from faultline_gateway.exports.inventory import Inventory
from faultline_gateway.exports.records import SOURCE_TYPES, Record, columns
from faultline_gateway.images.png import marked_png, synthetic_marks
from faultline_gateway.runs.stores import Store

Progress = Callable[[int, int], None]
"""Called after each image with the numbers of written and of all images; an exception ends the export."""

_SHOWN_OF_REF = 16


@dataclass(frozen=True)
class ExportedImage:
    """An image ready to be written: a path of safe names, unique in the export, its row and its PNG."""

    path: str
    row: dict[str, object]
    png: bytes


def images(inventory: Inventory, store: Store, progress: Progress | None) -> Iterator[ExportedImage]:
    """Yield the images in the inventory's order; none is read before the last one is taken.

    Raises:
        ArtifactMissing: the store has no such image; the class, shift and seed are named.
        ArtifactCorrupt: the stored bytes no longer match their digest.
    """
    taken: Counter[str] = Counter()
    for number, record in enumerate(inventory, start=1):
        row = columns(record, inventory.scores)
        yield ExportedImage(_path(record, inventory, taken), row, _png(record, row, store))
        if progress is not None:
            progress(number, inventory.images)


def _path(record: Record, inventory: Inventory, taken: Counter[str]) -> str:
    folder = f"{inventory.shift_folders[record.shift]}/{inventory.class_folders[record.class_name]}"
    name = record.image[:_SHOWN_OF_REF] if record.seed is None else str(record.seed)
    taken[f"{folder}/{name}"] += 1
    # Several image sources of one shift and class share their seeds.
    again = taken[f"{folder}/{name}"]
    return f"{folder}/{name}.png" if again == 1 else f"{folder}/{name}-{again}.png"


def _png(record: Record, row: dict[str, object], store: Store) -> bytes:
    # In ASCII, as some readers support nothing else in a text chunk.
    provenance = {"artifact": record.image, "faultline-provenance": json.dumps(row, allow_nan=False)}
    source_type = SOURCE_TYPES.get(record.origin)
    marks = provenance if source_type is None else synthetic_marks(source_type, **provenance)
    try:
        return marked_png(record.image, store, marks)
    except StorageError as error:
        raise type(error)(f"{error.detail} ({record})") from error
