"""The images of an export, one at a time: their names, their rows and their marked bytes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from counterpose_core.contract.editor import GENERATED_KIND
from counterpose_core.errors import StorageError
from counterpose_gateway.exports.inventory import Inventory
from counterpose_gateway.exports.records import KEPT, SOURCE_TYPES, Answer, Record, Source, columns
from counterpose_gateway.images.png import RememberingStore, marked_png, synthetic_marks
from counterpose_gateway.runs.context import Credentials

Progress = Callable[[int, int], None]
"""Called after each image with the numbers of written and of all images; an exception ends the export."""

SOURCES, SOURCE = "_sources", "source"
"""The folder of source images, which no class or shift can have, and their shift."""
_SHOWN_OF_REF = 16


@dataclass(frozen=True)
class ExportedImage:
    """An image ready to be written: a path of safe names, unique in the export, its row and its PNG.

    ``answers`` are the classifiers'; ``source`` tells of a counterfactual what it was made from.
    """

    path: str
    row: dict[str, object]
    png: bytes
    answers: Mapping[str, Answer] = field(default_factory=dict)
    source: ExportedSource | None = None


@dataclass(frozen=True)
class ExportedSource:
    """The source image of a counterfactual: its path, the same for all of its counterfactuals, and its row.

    ``read`` returns its PNG, marked as synthetic only if a model made it.
    """

    path: str
    row: dict[str, object]
    told: Source
    read: Callable[[], bytes]


def images(
    inventory: Inventory,
    store: RememberingStore,
    progress: Progress | None,
    credentials: Credentials | None = None,
) -> Iterator[ExportedImage]:
    """Yield the images in the inventory's order; none is read before the last one is taken.

    ``credentials`` sign those that a model made.

    Raises:
        ArtifactMissing: the store has no such image; the class, shift and seed are named.
        ArtifactCorrupt: the stored bytes no longer match their digest, or an image that is made again is not
            the one that was answered.
    """
    taken: Counter[str] = Counter()
    for number, record in enumerate(inventory, start=1):
        row = columns(record, inventory.scores)
        yield ExportedImage(
            _path(record, inventory, taken),
            row,
            _marked(record.image, row, store, record, credentials),
            record.answers,
            None if record.source is None else _source(record, record.source, store, credentials),
        )
        if progress is not None:
            progress(number, inventory.images)


def _source(
    record: Record, source: Source, store: RememberingStore, credentials: Credentials | None
) -> ExportedSource:
    made_here = store.recall(GENERATED_KIND, source.image.partition("/")[0]) is not None
    row = columns(record, ()) | {
        "shift": SOURCE,
        "image_source": "dataset",
        "prompt": "",
        "seed": None,
        "model": "",
        "bundle": "",
        "verdict": KEPT,
        "kept": True,
        "artifact": source.image,
        "origin": "generated" if made_here else "photograph",
        "synthetic": made_here,
        "digital_source_type": SOURCE_TYPES["generated"] if made_here else "",
    }
    path = f"{SOURCES}/{source.image[:_SHOWN_OF_REF]}.png"
    return ExportedSource(path, row, source, partial(_marked, source.image, row, store, record, credentials))


def _path(record: Record, inventory: Inventory, taken: Counter[str]) -> str:
    folder = f"{inventory.shift_folders[record.shift]}/{inventory.class_folders[record.class_name]}"
    name = record.image[:_SHOWN_OF_REF] if record.seed is None else str(record.seed)
    taken[f"{folder}/{name}"] += 1
    # Several image sources of one shift and class share their seeds.
    again = taken[f"{folder}/{name}"]
    return f"{folder}/{name}.png" if again == 1 else f"{folder}/{name}-{again}.png"


def _marked(
    ref: str, row: dict[str, object], store: RememberingStore, record: Record, credentials: Credentials | None
) -> bytes:
    # In ASCII, as some readers support nothing else in a text chunk.
    provenance = {"artifact": ref, "counterpose-provenance": json.dumps(row, allow_nan=False)}
    source_type = str(row["digital_source_type"])
    marks = synthetic_marks(source_type, **provenance) if source_type else provenance
    try:
        png = marked_png(ref, store, marks, record.pixels if ref == record.image else None)
    except StorageError as error:
        raise type(error)(f"{error.detail} ({record})") from error
    if credentials is None or not source_type:
        return png
    item = record.item if ref == record.image else None
    return credentials.sign(png, source_type, {**row, "item": item})
