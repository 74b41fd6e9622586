"""An export as one stream of bytes: what a gateway sends and a client unpacks."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from faultline_gateway.exports.card import README

MEDIA_TYPE = "application/x-tar"

_PIECE = 1 << 20
_MODE = 0o644


def archived(write: Callable[[Path], object]) -> Iterator[bytes]:
    """Let ``write`` fill a folder, and return the folder as a tar in pieces; the folder is gone afterwards.

    The card comes last: where it is, all of the rest is. Whatever ``write`` raises is raised here and now,
    not when the first piece is taken.
    """
    place = TemporaryDirectory(prefix="faultline-export-")
    try:
        folder = Path(place.name) / "export"
        write(folder)
    except BaseException:
        place.cleanup()
        raise
    return _pieces(place, folder)


def _pieces(place: TemporaryDirectory[str], folder: Path) -> Iterator[bytes]:
    try:
        for path in _in_order(folder):
            yield from _member(path, str(path.relative_to(folder)))
        yield bytes(2 * tarfile.BLOCKSIZE)
    finally:
        place.cleanup()


def _in_order(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return sorted(files, key=lambda path: path == folder / README)


def _member(path: Path, name: str) -> Iterator[bytes]:
    # Written out and not left to tarfile, which wants a file to write to: equal exports are equal bytes.
    told = tarfile.TarInfo(name)
    told.size, told.mode = path.stat().st_size, _MODE
    yield told.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
    yield bytes(-told.size % tarfile.BLOCKSIZE)
