"""An export on its way to disk: downloaded beside its folder, then unpacked whole or not at all."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Literal, get_args

from faultline_core.errors import BadBackendOutput, InvalidRequest

ExportLayout = Literal["imagefolder", "parquet", "webdataset"]
"""How exported pictures lie in their folder."""
LAYOUTS: tuple[ExportLayout, ...] = get_args(ExportLayout)

CARD = "README.md"
"""The dataset card, which comes last: where it is, all of the rest is."""


def check_export(layout: str, target: Path) -> None:
    """Refuse what could not be written, before anything is asked of the gateway.

    Raises:
        InvalidRequest: there is no such layout, or ``target`` holds something already.
    """
    if layout not in LAYOUTS:
        raise InvalidRequest(f"no layout is named {layout!r}; there are {', '.join(LAYOUTS)}")
    if target.exists() and not (target.is_dir() and next(target.iterdir(), None) is None):
        raise InvalidRequest(f"{str(target)!r} is there already: remove it or name another folder")


@contextmanager
def unpacked(target: Path) -> Iterator[IO[bytes]]:
    """Give a file for an archive, which becomes the folder ``target`` when the block ends well.

    Raises:
        InvalidRequest: nothing can be written there.
        BadBackendOutput: it is no whole archive of an export.
    """
    target = target.absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target: there a rename moves nothing.
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as place:
            archive, folder = Path(place) / "export.tar", Path(place) / "export"
            with archive.open("wb") as file:
                yield file
            _unpack(archive, folder)
            if target.exists():
                target.rmdir()
            shutil.move(folder, target)
    except OSError as error:
        raise InvalidRequest(f"the export cannot be written to {str(target)!r}: {error}") from error


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive, "r:") as tar:
            # "data" refuses links, devices and whatever would lie outside of the folder.
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise BadBackendOutput(f"the export is no archive: {error}") from error
    if not (folder / CARD).is_file():
        raise BadBackendOutput("the export ended before its card")
