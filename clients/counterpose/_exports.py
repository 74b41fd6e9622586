"""Writing an export to disk: downloaded next to its folder, then unpacked whole or not at all."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Literal, get_args

from counterpose_core.errors import BadBackendOutput, InvalidRequest

ExportLayout = Literal["imagefolder", "parquet", "webdataset", "fiftyone", "label-studio"]
"""The layout of an exported folder."""
LAYOUTS: tuple[ExportLayout, ...] = get_args(ExportLayout)

CARD = "README.md"
"""The dataset card, which is written last: where it exists, the export is complete."""


def check_export(layout: str, target: Path) -> None:
    """Reject an export that could not be written, before the gateway is asked for it.

    Raises:
        InvalidRequest: there is no such layout, or ``target`` is not empty.
    """
    if layout not in LAYOUTS:
        raise InvalidRequest(f"unknown layout {layout!r}: choose from {', '.join(LAYOUTS)}")
    if target.exists() and not (target.is_dir() and next(target.iterdir(), None) is None):
        raise InvalidRequest(f"{str(target)!r} exists already: remove it or choose another folder")


@contextmanager
def unpacked(target: Path) -> Iterator[IO[bytes]]:
    """Yield a file for an archive, which becomes the folder ``target`` if the block succeeds.

    Raises:
        InvalidRequest: the folder cannot be written.
        BadBackendOutput: the archive is damaged or incomplete.
    """
    target = target.absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder as the target, where moving is a rename.
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as place:
            archive, folder = Path(place) / "export.tar", Path(place) / "export"
            with archive.open("wb") as file:
                yield file
            _unpack(archive, folder)
            if target.exists():
                target.rmdir()
            shutil.move(folder, target)
    except OSError as error:
        raise InvalidRequest(f"cannot write the export to {str(target)!r}: {error}") from error


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive, "r:") as tar:
            # The filter "data" refuses links, devices and paths outside the folder.
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise BadBackendOutput(f"the export is not a tar archive: {error}") from error
    if not (folder / CARD).is_file():
        raise BadBackendOutput(f"the export ended before its dataset card {CARD!r}")
