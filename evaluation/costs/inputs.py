"""Valid inputs of every format, and the ways in which a small one may become long work."""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

MOST_BYTES = 16_000_000
MOST_REPEATS = 60_000
_MARKER, _SCAN = 0xFF, 0xDA

Draw = np.random.Generator
FORMATS = ("png", "jpeg", "progressive", "webp")


def image(kind: str, draw: Draw, side: int = 64, *, flat: bool = False) -> bytes:
    """Return a valid image file of a square of ``side``, of one colour or of noise."""
    shape = (side, side, 3)
    pixels = np.full(shape, 90, np.uint8) if flat else draw.integers(0, 256, shape, dtype=np.uint8)
    written = io.BytesIO()
    picture = Image.fromarray(pixels)
    match kind:
        case "png":
            picture.save(written, "PNG")
        case "webp":
            picture.save(written, "WEBP", lossless=flat, quality=80)
        case _:
            picture.save(written, "JPEG", progressive=kind == "progressive")
    return written.getvalue()


def parts_of(kind: str, data: bytes) -> list[tuple[int, int]]:
    """Return where the chunks, segments and scans of an image begin and end."""
    split = _SPLITS["jpeg" if kind == "progressive" else kind]
    return list(split(data))


def _png_parts(data: bytes) -> Iterator[tuple[int, int]]:
    at = 8
    while at < len(data):
        end = at + 12 + int(struct.unpack(">I", data[at : at + 4])[0])
        yield at, end
        at = end


def _webp_parts(data: bytes) -> Iterator[tuple[int, int]]:
    at = 12
    while at + 8 <= len(data):
        size = int(struct.unpack("<I", data[at + 4 : at + 8])[0])
        yield at, at + 8 + size + size % 2
        at += 8 + size + size % 2


def _jpeg_parts(data: bytes) -> Iterator[tuple[int, int]]:
    at = 2
    while at + 4 <= len(data) and data[at + 1] != 0xD9:
        end = at + 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0])
        if data[at + 1] == _SCAN:
            # The scan's own data ends before the next marker that is no stuffed zero and no restart.
            while end + 1 < len(data) and (
                data[end] != _MARKER or data[end + 1] == 0 or 0xD0 <= data[end + 1] <= 0xD7
            ):
                end += 1
        yield at, end
        at = end


_SPLITS: dict[str, Callable[[bytes], Iterator[tuple[int, int]]]] = {
    "png": _png_parts, "webp": _webp_parts, "jpeg": _jpeg_parts,
}  # fmt: skip


def repeated(kind: str, draw: Draw, strength: float) -> bytes:
    """Repeat one part of an image of one colour, up to 60,000 times."""
    data = image(kind, draw, int(draw.choice((64, 2000, 4000))), flat=True)
    parts = parts_of(kind, data)
    start, end = parts[int(draw.integers(len(parts)))]
    times = min(round(float(MOST_REPEATS**strength)), MOST_BYTES // max(end - start, 1))
    return data[:start] + data[start:end] * times + data[end:]


def widened(kind: str, draw: Draw, strength: float) -> bytes:
    """An image of one colour of up to 16 million pixels, in some hundred bytes."""
    return image(kind, draw, round(64 * (4000 / 64) ** strength), flat=True)


def announced_png(draw: Draw, strength: float) -> bytes:
    """A PNG whose head announces up to 2^31 columns, with a right checksum."""
    data = bytearray(image("png", draw))
    data[16:20] = struct.pack(">I", round((2**31 - 1) ** strength))
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


def flipped(kind: str, draw: Draw, strength: float) -> bytes:
    """An image of noise with up to half of its bytes changed."""
    data = bytearray(image(kind, draw, 128))
    for at in draw.integers(0, len(data), max(round(len(data) / 2 * strength), 1)).tolist():
        data[at] = int(draw.integers(256))
    return bytes(data)


def cut(kind: str, draw: Draw, strength: float) -> bytes:
    """An image whose end is missing."""
    data = image(kind, draw, 1000)
    return data[: max(round(len(data) * strength), 1)]


def tar(folder: Path, draw: Draw, change: str, strength: float) -> Path:
    """A tar shard of one sample: plain, of very many members, or one that announces a huge one."""
    path = folder / "shard.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        content = image("png", draw)
        for number in range(round(20_000**strength) if change == "repeat" else 1):
            for suffix, data in ((".png", content if number == 0 else b""), (".cls", b"sled")):
                member = tarfile.TarInfo(f"{number:06}{suffix}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        if change == "announce":
            member = tarfile.TarInfo("last.png")
            member.pax_headers = {"size": str(round(2.0 ** (70 * strength)))}
            archive.addfile(member, io.BytesIO(b""))
    return path


def parquet(folder: Path, draw: Draw, change: str, strength: float) -> Path:
    """A Parquet file of images: plain, of one large value for all rows, or of a column that inflates."""
    path = folder / "train.parquet"
    value, rows = image("png", draw), 4
    if change == "inflate":
        value, rows = bytes(round(60_000_000**strength)), 64
    table = pa.table({
        "image": pa.array([{"bytes": value, "path": f"{row}.png"} for row in range(rows)]),
        "label": pa.array(["sled"] * rows),
    })  # fmt: skip
    pq.write_table(table, path, compression="zstd", use_dictionary=True)
    return path
