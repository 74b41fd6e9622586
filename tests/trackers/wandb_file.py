"""W&B's file of an offline run: records of protobuf, framed as LevelDB's log."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK, HEADER, FILE_HEADER = 32768, 7, 7
FULL, LAST = 1, 4


def summary_of(path: Path) -> dict[str, Any]:
    """Return the summary that a run's file holds, by dotted names."""
    told: dict[str, Any] = {}
    for record in _records(path):
        for each in (*record.summary.update, *record.history.item):
            told[each.key or ".".join(each.nested_key)] = json.loads(each.value_json)
    return told


def artifact_of(path: Path) -> dict[str, Path]:
    """Return the files of the artifacts that a run's file holds, by their names in it."""
    return {
        each.path: Path(each.local_path)
        for record in _records(path)
        for each in record.artifact.manifest.contents
    }


def _records(path: Path) -> Iterator[Any]:
    proto = importlib.import_module("wandb.proto.wandb_internal_pb2")
    return map(proto.Record.FromString, _frames(path.read_bytes()))


def _frames(data: bytes) -> Iterator[bytes]:
    held, place = b"", FILE_HEADER
    while place + HEADER <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER:
            place += left
            continue
        size, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        held += data[place + HEADER : place + HEADER + size]
        place += HEADER + size
        if kind in (FULL, LAST):
            yield held
            held = b""
