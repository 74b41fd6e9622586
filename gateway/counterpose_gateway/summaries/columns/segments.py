"""Files of columns: a part of a run's items each, written whole or not at all, checked when read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import numpy as np

from counterpose_gateway.summaries.columns.features import BYTES_OF_A_NUMBER, FeatureBlock
from counterpose_gateway.summaries.columns.parts import Part
from counterpose_gateway.summaries.columns.stamps import Stamps

UNFINISHED = ".unfinished"
"""How the name of a file ends that is being written, or whose writer was killed."""

_MAGIC = b"counterpose columns 1\n"
_DIGEST = 32
_LENGTH = 8
_STAMP = "stamp:"
_AT_ONCE = 1 << 20


def write_segment(path: Path, part: Part, stamps: Stamps, made_by: str) -> int:
    """Write a part with the stamps of its items; returns its bytes.

    A reader sees the whole file or none; a file that a power cut left in pieces has another digest.

    Args:
        path: the file.
        part: the columns.
        stamps: what the ledger had of the items when they were read.
        made_by: names the code that makes such columns.

    Raises:
        OSError: it could not be written.
    """
    arrays = {**part.numbers, **{_STAMP + name: column for name, column in stamps.columns.items()}}
    features = {width: block.held or b"" for width, block in part.features.items()}
    header = {
        "made_by": made_by,
        "length": part.length,
        "arrays": [[name, array.dtype.str, len(array)] for name, array in arrays.items()],
        "tables": dict(part.tables),
        "totals": dict(part.totals),
        "features": [[width, block.rows] for width, block in part.features.items()],
        "features_digest": sha256(b"".join(features.values())).hexdigest(),
    }
    told, body = json.dumps(header).encode(), b"".join(array.tobytes() for array in arrays.values())
    checked = b"".join((len(told).to_bytes(_LENGTH), len(body).to_bytes(_LENGTH), told, body))
    handle, unfinished = tempfile.mkstemp(dir=path.parent, suffix=UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in (_MAGIC, sha256(checked).digest(), checked, *features.values()):
                file.write(piece)
            size = file.tell()
        Path(unfinished).replace(path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    return size


def read_segment(path: Path, stamps: Stamps, made_by: str) -> Part | None:
    """Return the part of a file, if it is whole, of this making, and of items with these stamps.

    Its vectors stay in the file, which is open as long as the part.
    """
    try:
        file = path.open("rb")
    except OSError:
        return None
    try:
        found = _read(file, stamps, made_by)
    except (OSError, ValueError, KeyError, TypeError):
        # Not of this form: what is not understood is made anew.
        found = None
    if found is None or not found.features:
        file.close()
    return found


def _read(file: IO[bytes], stamps: Stamps, made_by: str) -> Part | None:
    checked = _checked(file)
    if checked is None or checked[0]["made_by"] != made_by:
        return None
    header, arrays, end = checked
    kept = {name: arrays.pop(_STAMP + name) for name in stamps.columns}
    if not Stamps(**kept).equal(stamps):
        return None
    blocks: dict[int, FeatureBlock] = {}
    offset = end
    for width, rows in header["features"]:
        blocks[width] = FeatureBlock(rows, file=file, offset=offset)
        offset += width * rows * BYTES_OF_A_NUMBER
    if _digest_from(file, end) != header["features_digest"]:
        return None
    return Part(header["length"], arrays, header["tables"], header["totals"], blocks)


def _checked(file: IO[bytes]) -> tuple[Any, dict[str, Any], int] | None:
    """The header, the arrays and where they end; None where the digest differs."""
    start = file.read(len(_MAGIC) + _DIGEST + 2 * _LENGTH)
    digest, told = start[len(_MAGIC) :][:_DIGEST], start[len(_MAGIC) + _DIGEST :]
    lengths = int.from_bytes(told[:_LENGTH]), int.from_bytes(told[_LENGTH:])
    # Nothing is understood, nor so much memory taken, before the digest tells that it was written here.
    if not start.startswith(_MAGIC) or sum(lengths) > os.fstat(file.fileno()).st_size:
        return None
    body = file.read(sum(lengths))
    if sha256(told + body).digest() != digest:
        return None
    header = json.loads(body[: lengths[0]])
    return header, dict(_arrays(body, lengths[0], header["arrays"])), file.tell()


def _arrays(body: bytes, offset: int, described: list[tuple[str, str, int]]) -> Iterator[tuple[str, Any]]:
    for name, kind, number in described:
        array = np.frombuffer(body, kind, number, offset)
        yield name, array
        offset += array.nbytes


def _digest_from(file: IO[bytes], start: int) -> str:
    file.seek(start)
    found = sha256()
    while piece := file.read(_AT_ONCE):
        found.update(piece)
    return found.hexdigest()
