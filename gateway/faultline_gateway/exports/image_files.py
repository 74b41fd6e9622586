"""Layouts of PNG files: a tree by shift and class with metadata, or tar shards for WebDataset."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from faultline_gateway.exports.images import ExportedImage
from faultline_gateway.exports.inventory import Inventory
from faultline_gateway.exports.layouts import SHARDS_FOLDER, Layout, parts, write_shards

METADATA = "metadata.jsonl"
"""Where Hugging Face's imagefolder loader looks for the columns."""

FOLDERS = "folders.json"
"""Maps each folder of a shift and of a class to its name."""


def write_imagefolder(folder: Path, images: Iterator[ExportedImage], inventory: Inventory, _: int) -> None:
    """Write ``<shift>/<class>/<seed>.png``, the metadata and the names of the folders."""
    with (folder / METADATA).open("w", encoding="utf-8") as metadata:
        for image in images:
            path = folder / image.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(image.png)
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


WEBDATASET = Layout(
    write=write_webdataset,
    files=(f"{SHARDS_FOLDER}/*.tar",),
    reading="""\
import glob, webdataset

shards = sorted(glob.glob("FOLDER/data/*.tar"))
images = webdataset.WebDataset(shards, shardshuffle=False).decode("rgb8").to_tuple("png", "json")""",
)
