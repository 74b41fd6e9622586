"""Write an export: the records become a complete folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.exports.archive import whole_folder
from counterpose_gateway.exports.card import README, Card, render
from counterpose_gateway.exports.fiftyone import FIFTYONE
from counterpose_gateway.exports.images import Progress, images
from counterpose_gateway.exports.inventory import take_inventory
from counterpose_gateway.exports.label_studio import LABEL_STUDIO
from counterpose_gateway.exports.layouts import IMAGEFOLDER, PARQUET, WEBDATASET, Layout
from counterpose_gateway.exports.records import Record
from counterpose_gateway.images.png import RememberingStore
from counterpose_gateway.runs.context import Credentials

ExportLayout = Literal["imagefolder", "parquet", "webdataset", "fiftyone", "label-studio"]
LAYOUTS: tuple[ExportLayout, ...] = get_args(ExportLayout)
SHARD_BYTES = 500 * 10**6
"""Bytes of images that fill a shard, as the Hub recommends."""

_LAYOUTS: dict[ExportLayout, Layout] = {
    "imagefolder": IMAGEFOLDER,
    "parquet": PARQUET,
    "webdataset": WEBDATASET,
    "fiftyone": FIFTYONE,
    "label-studio": LABEL_STUDIO,
}


@dataclass(frozen=True)
class Export:
    """The folder of an export, and the number of its images."""

    folder: Path
    images: int


def write_export(
    records: Iterable[Record],
    target: Path,
    *,
    layout: ExportLayout,
    store: RememberingStore,
    card: Card,
    shard_bytes: int = SHARD_BYTES,
    progress: Progress | None = None,
    credentials: Credentials | None = None,
) -> Export:
    """Write the images of ``records`` into the new folder ``target``, each marked, with its row and a card.

    Records are read once and images one at a time. Equal records in equal order give equal bytes, unless
    ``credentials`` sign the images that a model made; ``target`` appears only once it is complete.

    Raises:
        DatasetEmpty: ``records`` is empty.
        InvalidRequest: ``target`` is not empty, ``shard_bytes`` is below 1, or parquet lacks pyarrow.
        ArtifactMissing: an image is missing from the store; the error names it.
        ArtifactCorrupt: a stored image no longer matches its digest.
        StorageFull: the disk has no room for the export.
    """
    if shard_bytes < 1:
        raise InvalidRequest(f"a shard of {shard_bytes!r} bytes is too small for an image; raise its size")
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    chosen = _LAYOUTS[layout]
    with take_inventory(records, folder=target.parent) as inventory, whole_folder(target) as folder:
        chosen.write(folder, images(inventory, store, progress, credentials), inventory, shard_bytes)
        (folder / README).write_text(render(card, inventory, chosen), encoding="utf-8")
    return Export(folder=target, images=inventory.images)
