"""A tree of PNG files by shift and class, with one line of metadata a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from faultline_gateway.exports.inventory import Inventory
from faultline_gateway.exports.layouts import Layout
from faultline_gateway.exports.pictures import Picture

METADATA = "metadata.jsonl"
"""Where Hugging Face's imagefolder loader looks for the columns."""

FOLDERS = "folders.json"
"""Maps each folder of a shift and of a class to the name it stands for."""


def write_imagefolder(folder: Path, pictures: Iterator[Picture], inventory: Inventory, _: int) -> None:
    """Write ``<shift>/<class>/<seed>.png``, the metadata and the names of the folders."""
    with (folder / METADATA).open("w", encoding="utf-8") as metadata:
        for picture in pictures:
            path = folder / picture.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture.png)
            metadata.write(_json({"file_name": picture.path} | picture.row))
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

pictures = datasets.load_dataset("imagefolder", data_dir="FOLDER", split="train")
one_shift = torchvision.datasets.ImageFolder("FOLDER/<shift>")""",
)
