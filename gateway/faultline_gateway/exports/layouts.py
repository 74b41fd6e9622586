"""The layouts of an export: how each is written, which files are data, and how to read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from faultline_gateway.exports.images import ExportedImage
from faultline_gateway.exports.inventory import Inventory

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
