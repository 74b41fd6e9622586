"""A tree of PNG files by shift and class, with one line of metadata per image."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from faultline_gateway.exports.images import ExportedImage
from faultline_gateway.exports.inventory import Inventory
from faultline_gateway.exports.layouts import Layout

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
