"""What a layout of an export is: how it is written, which of its files are data, how it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from faultline_gateway.exports.inventory import Inventory
from faultline_gateway.exports.pictures import Picture

SPLIT = "train"
"""The only split, by the name that loaders give to one that has none."""

SHARDS_FOLDER = "data"

Write = Callable[[Path, Iterator[Picture], Inventory, int], None]
"""Writes the pictures into a folder, in shards of about as many bytes where the layout has shards."""


@dataclass(frozen=True)
class Layout:
    """A layout: ``files`` are patterns of its data, ``reading`` is a program that reads ``FOLDER``."""

    write: Write
    files: tuple[str, ...]
    reading: str


class _Parts:
    """Numbers the parts that a stream falls into: a part ends with the picture that fills it."""

    def __init__(self, most_bytes: int, most_pictures: int | None) -> None:
        self.most_bytes, self.most_pictures = most_bytes, most_pictures
        self.part = self.bytes = self.pictures = 0

    def __call__(self, picture: Picture) -> int:
        if self.bytes >= self.most_bytes or self.pictures == self.most_pictures:
            self.part, self.bytes, self.pictures = self.part + 1, 0, 0
        self.bytes, self.pictures = self.bytes + len(picture.png), self.pictures + 1
        return self.part


def parts(
    pictures: Iterator[Picture], *, most_bytes: int, most_pictures: int | None = None
) -> Iterator[Iterator[Picture]]:
    """Cut a stream of pictures into parts, each to be read before the next is asked for."""
    return (part for _, part in groupby(pictures, key=_Parts(most_bytes, most_pictures)))


def write_shards(
    folder: Path,
    suffix: str,
    shards: Iterator[Iterator[Picture]],
    write: Callable[[Path, Iterator[Picture]], None],
) -> None:
    """Write each shard, then name it ``train-00000-of-00012`` as Hugging Face and WebDataset expect."""
    place = folder / SHARDS_FOLDER
    place.mkdir()
    written: list[Path] = []
    for number, shard in enumerate(shards):
        written.append(place / f"{SPLIT}-{number:05d}{suffix}")
        write(written[-1], shard)
    # How many there are is known only now.
    for path in written:
        path.rename(path.with_name(f"{path.stem}-of-{len(written):05d}{suffix}"))
