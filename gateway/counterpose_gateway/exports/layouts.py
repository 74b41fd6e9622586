"""The layouts of an export: how each is written, which files are data, and how to read them.

Parquet shards that Hugging Face's datasets reads as images with columns.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.exports.images import ExportedImage
from counterpose_gateway.exports.inventory import Inventory
from counterpose_gateway.exports.records import COLUMNS, SCORES

SPLIT = "train"
"""The only split, with the name that loaders use by default."""

SHARDS_FOLDER = "data"

Write = Callable[[Path, Iterator[ExportedImage], Inventory, int], None]
"""Writes the images into a folder, in shards of about so many bytes if the layout has shards."""


@dataclass(frozen=True)
class Layout:
    """A layout: ``files`` are patterns of its data, ``reading`` is a program that reads ``FOLDER``."""

    write: Write
    files: tuple[str, ...]
    reading: str


class _Parts:
    """Numbers the parts of a stream: a part ends with the image that fills it."""

    def __init__(self, most_bytes: int, most_images: int | None) -> None:
        self.most_bytes, self.most_images = most_bytes, most_images
        self.part = self.bytes = self.images = 0

    def __call__(self, image: ExportedImage) -> int:
        if self.bytes >= self.most_bytes or self.images == self.most_images:
            self.part, self.bytes, self.images = self.part + 1, 0, 0
        self.bytes, self.images = self.bytes + len(image.png), self.images + 1
        return self.part


def parts(
    images: Iterator[ExportedImage], *, most_bytes: int, most_images: int | None = None
) -> Iterator[Iterator[ExportedImage]]:
    """Cut a stream of images into parts; read each part before requesting the next."""
    return (part for _, part in groupby(images, key=_Parts(most_bytes, most_images)))


def write_shards(
    folder: Path,
    suffix: str,
    shards: Iterator[Iterator[ExportedImage]],
    write: Callable[[Path, Iterator[ExportedImage]], None],
) -> None:
    """Write each shard, then name it ``train-00000-of-00012`` as Hugging Face and WebDataset expect."""
    place = folder / SHARDS_FOLDER
    place.mkdir()
    written: list[Path] = []
    for number, shard in enumerate(shards):
        written.append(place / f"{SPLIT}-{number:05d}{suffix}")
        write(written[-1], shard)
    # The number of shards is known only now.
    for path in written:
        path.rename(path.with_name(f"{path.stem}-of-{len(written):05d}{suffix}"))


def write_image(folder: Path, image: ExportedImage) -> None:
    """Write an image below ``folder``, and beside the first of its counterfactuals its source image."""
    _write(folder / image.path, image.png)
    if image.source is not None and not (path := folder / image.source.path).exists():
        _write(path, image.source.read())


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


METADATA = "metadata.jsonl"
"""Where Hugging Face's imagefolder loader looks for the columns."""

FOLDERS = "folders.json"
"""Maps each folder of a shift and of a class to its name."""


def write_imagefolder(folder: Path, images: Iterator[ExportedImage], inventory: Inventory, _: int) -> None:
    """Write ``<shift>/<class>/<seed>.png``, the metadata and the names of the folders."""
    with (folder / METADATA).open("w", encoding="utf-8") as metadata:
        for image in images:
            _write(folder / image.path, image.png)
            metadata.write(_json({"file_name": image.path} | image.row))
    names = {"shifts": inventory.shift_folders, "classes": inventory.class_folders}
    by_folder = {
        kind: {found: name for name, found in sorted(known.items())} for kind, known in names.items()
    }
    (folder / FOLDERS).write_text(_json(by_folder), encoding="utf-8")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


IMAGEFOLDER = Layout(
    write=write_imagefolder,
    files=(METADATA, "*/*/*.png"),
    reading="""\
import datasets, torchvision

images = datasets.load_dataset("imagefolder", data_dir="FOLDER", split="train")
one_shift = torchvision.datasets.ImageFolder("FOLDER/<shift>")""",
)


def write_webdataset(folder: Path, images: Iterator[ExportedImage], _: Inventory, shard_bytes: int) -> None:
    """Write ``data/train-*.tar``: a PNG and a JSON file per image, under its path in an image folder."""
    write_shards(folder, ".tar", parts(images, most_bytes=shard_bytes), _write_tar)


def _write_tar(path: Path, images: Iterator[ExportedImage]) -> None:
    with tarfile.open(path, "x", format=tarfile.USTAR_FORMAT) as tar:
        for image in images:
            name = PurePosixPath(image.path)
            row = json.dumps(image.row, ensure_ascii=False, allow_nan=False).encode()
            for suffix, content in ((".png", image.png), (".json", row)):
                # A fresh header: its time, owner and mode are the same on every machine.
                header = tarfile.TarInfo(str(name.with_suffix(suffix)))
                header.size = len(content)
                tar.addfile(header, io.BytesIO(content))
            # It keeps the header of every member: a shard of small images has a hundred thousand.
            tar.getmembers().clear()


WEBDATASET = Layout(
    write=write_webdataset,
    files=(f"{SHARDS_FOLDER}/*.tar",),
    reading="""\
import glob, webdataset

shards = sorted(glob.glob("FOLDER/data/*.tar"))
images = webdataset.WebDataset(shards, shardshuffle=False).decode("rgb8").to_tuple("png", "json")""",
)


ROW_GROUP_IMAGES = 100
"""The number of images that the Hub's viewer reads at once, and that are held in memory."""

ROW_GROUP_BYTES = 32 * 2**20

_SCORE = "float64"


def write_parquet(
    folder: Path, images: Iterator[ExportedImage], inventory: Inventory, shard_bytes: int
) -> None:
    """Write ``data/train-*.parquet`` with the schema and features of all records.

    Raises:
        InvalidRequest: pyarrow is not installed.
    """
    arrow = _arrow()
    schema = _schema(arrow, inventory)

    def write(path: Path, shard: Iterator[ExportedImage]) -> None:
        with arrow.parquet.ParquetWriter(path, schema) as writer:
            for group in parts(shard, most_bytes=ROW_GROUP_BYTES, most_images=ROW_GROUP_IMAGES):
                writer.write_table(arrow.Table.from_pylist([_row(image) for image in group], schema))

    write_shards(folder, ".parquet", parts(images, most_bytes=shard_bytes), write)


def _arrow() -> Any:
    # pyarrow is heavy, and only this layout needs it.
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidRequest(
            "the parquet layout needs pyarrow; install the extra 'exports' where the gateway runs"
        ) from error
    return pyarrow


def _row(image: ExportedImage) -> dict[str, object]:
    return {"image": {"bytes": image.png, "path": image.path}} | image.row


def _schema(arrow: Any, inventory: Inventory) -> Any:
    fields = {
        "image": arrow.struct({"bytes": arrow.binary(), "path": arrow.string()}),
        **{name: arrow.type_for_alias(column.dtype) for name, column in COLUMNS.items()},
    }
    if inventory.scores:
        fields[SCORES] = arrow.struct({name: arrow.type_for_alias(_SCORE) for name in inventory.scores})
    return arrow.schema(fields, metadata={"huggingface": json.dumps(_features(inventory))})


def _features(inventory: Inventory) -> dict[str, object]:
    """Hugging Face's features, which mark a struct of bytes and path as an image."""
    features: dict[str, object] = {"image": {"_type": "Image"}}
    features |= {name: _value(column.dtype) for name, column in COLUMNS.items()}
    if inventory.scores:
        features[SCORES] = {name: _value(_SCORE) for name in inventory.scores}
    return {"info": {"features": features}}


def _value(dtype: str) -> dict[str, str]:
    return {"dtype": dtype, "_type": "Value"}


PARQUET = Layout(
    write=write_parquet,
    files=(f"{SHARDS_FOLDER}/*.parquet",),
    reading="""\
import datasets

images = datasets.load_dataset("parquet", data_files="FOLDER/data/*.parquet", split="train")""",
)
