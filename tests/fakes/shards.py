"""Datasets at URLs for imports: tar shards, folders and Parquet files of small images."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence

import fsspec
import numpy as np
from PIL import Image

Members = Iterable[tuple[str, bytes]]


def png(number: int, side: int = 8) -> bytes:
    """The bytes of a small PNG; each number has its own."""
    pixels = np.random.default_rng(number).integers(0, 256, (side, side, 3), dtype=np.uint8)
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "PNG", compress_level=1)
    return written.getvalue()


def sample(number: int, label: str | int) -> list[tuple[str, bytes]]:
    """The members of one sample: an image and its label."""
    return [(f"{number:06d}.png", png(number)), (f"{number:06d}.cls", str(label).encode())]


def tar(members: Members) -> bytes:
    """A tar of these members, in this order."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, data in members:
            header = tarfile.TarInfo(name)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    return written.getvalue()


def write_files(url: str, files: Mapping[str, bytes]) -> str:
    """Write files below a URL, which is returned."""
    for name, data in files.items():
        with fsspec.open(f"{url}/{name}", "wb") as opened:
            opened.write(data)
    return url


def write_shards(
    url: str, shards: int, each: int, labels: Sequence[str | int], names: Sequence[str] | None = None
) -> str:
    """Write tar shards of samples with labels in turn; return the pattern of their addresses."""
    files = {
        f"shard-{shard:06d}.tar": tar(
            member
            for number in range(shard * each, (shard + 1) * each)
            for member in sample(number, labels[number % len(labels)])
        )
        for shard in range(shards)
    }
    if names is not None:
        files["classes.json"] = json.dumps(names).encode()
    write_files(url, files)
    return f"{url}/shard-{{000000..{shards - 1:06d}}}.tar"


def write_index(url: str, names: Iterable[str]) -> str:
    """Write an index of shards, as `widsindex` does, and return its address."""
    shardlist = [{"url": name, "nsamples": 1} for name in names]
    index = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shardlist}
    write_files(url, {"index.json": json.dumps(index).encode()})
    return f"{url}/index.json"
