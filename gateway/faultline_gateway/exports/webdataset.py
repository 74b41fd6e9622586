"""Tar shards for WebDataset: a PNG and a JSON file per image, equal bytes for equal records."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from faultline_gateway.exports.images import ExportedImage
from faultline_gateway.exports.inventory import Inventory
from faultline_gateway.exports.layouts import SHARDS_FOLDER, Layout, parts, write_shards


def write_webdataset(folder: Path, images: Iterator[ExportedImage], _: Inventory, shard_bytes: int) -> None:
    """Write ``data/train-*.tar``; an image's key is its path in an image folder."""
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
