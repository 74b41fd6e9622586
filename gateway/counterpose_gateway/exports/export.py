"""Write an export: the records become a complete folder.

Write a folder completely or not at all, and stream it as a tar.

Register images that a run made as a dataset, so that other methods take them as any user's.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

from counterpose_core.blobs import NO_ROOM, BlobStore
from counterpose_core.contract.datasets import Dataset
from counterpose_core.errors import DatasetEmpty, InvalidRequest, StorageFull
from counterpose_core.images.codecs import decode_image
from counterpose_gateway.exports.card import README, Card, render
from counterpose_gateway.exports.fiftyone import FIFTYONE
from counterpose_gateway.exports.images import Progress, images
from counterpose_gateway.exports.inventory import take_inventory
from counterpose_gateway.exports.label_studio import LABEL_STUDIO
from counterpose_gateway.exports.layouts import IMAGEFOLDER, PARQUET, WEBDATASET, Layout
from counterpose_gateway.exports.records import Record
from counterpose_gateway.images.pixels import PIXELS
from counterpose_gateway.images.png import RememberingStore
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.sources import NewSource
from counterpose_gateway.runs.context import Credentials

ExportLayout = Literal["imagefolder", "parquet", "webdataset", "fiftyone", "label-studio"]
LAYOUTS: tuple[ExportLayout, ...] = get_args(ExportLayout)
SHARD_BYTES = 500 * 10**6
"""Bytes of images that fill a shard, as the Hub recommends."""

_LAYOUTS: dict[ExportLayout, Layout] = {
    "imagefolder": IMAGEFOLDER,
    "parquet": PARQUET,
    "webdataset": WEBDATASET,
    "fiftyone": FIFTYONE,
    "label-studio": LABEL_STUDIO,
}


@dataclass(frozen=True)
class Export:
    """The folder of an export, and the number of its images."""

    folder: Path
    images: int


def write_export(
    records: Iterable[Record],
    target: Path,
    *,
    layout: ExportLayout,
    store: RememberingStore,
    card: Card,
    shard_bytes: int = SHARD_BYTES,
    progress: Progress | None = None,
    credentials: Credentials | None = None,
) -> Export:
    """Write the images of ``records`` into the new folder ``target``, each marked, with its row and a card.

    Records are read once and images one at a time. Equal records in equal order give equal bytes, unless
    ``credentials`` sign the images that a model made; ``target`` appears only once it is complete.

    Raises:
        DatasetEmpty: ``records`` is empty.
        InvalidRequest: ``target`` is not empty, ``shard_bytes`` is below 1, or parquet lacks pyarrow.
        ArtifactMissing: an image is missing from the store; the error names it.
        ArtifactCorrupt: a stored image no longer matches its digest.
        StorageFull: the disk has no room for the export.
    """
    if shard_bytes < 1:
        raise InvalidRequest(f"a shard of {shard_bytes!r} bytes is too small for an image; raise its size")
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    chosen = _LAYOUTS[layout]
    with take_inventory(records, folder=target.parent) as inventory, whole_folder(target) as folder:
        chosen.write(folder, images(inventory, store, progress, credentials), inventory, shard_bytes)
        (folder / README).write_text(render(card, inventory, chosen), encoding="utf-8")
    return Export(folder=target, images=inventory.images)


MEDIA_TYPE = "application/x-tar"

_PIECE = 1 << 20
_MODE = 0o644


def archived(
    write: Callable[[Path], object], room: AbstractContextManager[None] | None = None
) -> Iterator[bytes]:
    """Let ``write`` fill a folder, and return it as a tar in pieces; the folder is deleted afterwards.

    The card comes last: if it is there, so is the rest. An error of ``write`` is raised at once, not when
    the first piece is read.

    Args:
        write: fills the folder.
        room: held as long as the folder is there; raises where there is none.
    """
    pieces = _pieces(write, room or nullcontext())
    # Begun here: what is dropped before its first piece is read gives folder and room back, too.
    next(pieces)
    return pieces


def _pieces(write: Callable[[Path], object], room: AbstractContextManager[None]) -> Iterator[bytes]:
    with room, TemporaryDirectory(prefix="counterpose-export-") as place:
        folder = Path(place) / "export"
        write(folder)
        yield b""
        for path in _in_order(folder):
            yield from _member(path, str(path.relative_to(folder)))
        yield bytes(2 * tarfile.BLOCKSIZE)


def _in_order(folder: Path) -> Iterator[Path]:
    card = folder / README
    yield from (path for path in _files(folder) if path != card)
    if card.exists():
        yield card


def _files(folder: Path) -> Iterator[Path]:
    # Folder by folder: an export of a million images is no list of a million paths.
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def _member(path: Path, name: str) -> Iterator[bytes]:
    # Not by tarfile, which needs a file to write to; equal exports give equal bytes.
    header = tarfile.TarInfo(name)
    header.size, header.mode = path.stat().st_size, _MODE
    yield header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
    yield bytes(-header.size % tarfile.BLOCKSIZE)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes ``target`` when the block succeeds, and is removed when it raises.

    A killed process leaves ``.<name>.partial``, which the next writer of the same target empties first.
    Nothing is synced, as that may take longer than writing the files: after a power loss, export again.

    Raises:
        InvalidRequest: ``target`` is not empty, or another process is writing it.
        StorageFull: the disk is full.
    """
    _refuse_taken(target)
    partial = target.with_name(f".{target.name}.partial")
    with _claimed(partial):
        _clear(partial)
        try:
            yield partial
            # Another process may have filled it in the meantime.
            _refuse_taken(target)
            partial.rename(target)
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise StorageFull(f"no room for {str(target)!r}") from error
            raise


def _refuse_taken(target: Path) -> None:
    if target.exists() and not (target.is_dir() and next(target.iterdir(), None) is None):
        raise InvalidRequest(f"{str(target)!r} already exists: remove it or name another folder")


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder itself: it ends with the process, and leaves no file behind."""
    folder.mkdir(exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not _is_ours(handle, folder):
            raise InvalidRequest(
                f"another process is writing {str(folder)!r}; wait for it or name another folder"
            )
        yield
    finally:
        os.close(handle)


def _is_ours(handle: int, folder: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # The previous holder of the lock may have renamed the folder: then the handle is of a finished export.
    return folder.is_dir() and os.fstat(handle).st_ino == folder.stat().st_ino


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


_REGISTERED_AT_ONCE = 500


def register(
    name: str,
    classes: list[str],
    records: Iterable[Record],
    *,
    ledger: Ledger,
    store: BlobStore,
    quotas: Quotas,
) -> Dataset:
    """Make the dataset ``name`` of a run's images; repeating it adds nothing.

    Images of one prompt are a group: they are not independent, and no method divides them. The images stay
    marked as generated, since the store knows that they are.

    Raises:
        DatasetEmpty: the run kept no image.
        InvalidRequest: the dataset exists with other classes.
        QuotaExceeded: there are too many datasets or images.
        ArtifactMissing, ArtifactCorrupt: an image is not in the store any more.
    """
    sources = list(_sources(records, store))
    # Checked before the dataset is made: a run without images leaves no empty dataset behind.
    if not sources:
        raise DatasetEmpty("the run kept no image; there is nothing to register")
    ledger.datasets.create(name, classes, quotas.check_datasets)
    # In chunks, so that other writers get their turn.
    for start in range(0, len(sources), _REGISTERED_AT_ONCE):
        ledger.datasets.add(name, sources[start : start + _REGISTERED_AT_ONCE], check=quotas.check)
    return ledger.datasets.get(name)


def _sources(records: Iterable[Record], store: BlobStore) -> Iterator[NewSource]:
    for record in records:
        with PIXELS.reading(store.get) as read:
            data = read(record.image)
            height, width, _ = decode_image(data).shape
        yield NewSource(
            image=record.image,
            label=record.class_name,
            filename=f"{record.class_name}/{record.image[:16]}.png",
            caption=record.prompt,
            width=width,
            height=height,
            group=f"{record.class_name}, {record.shift}",
            stored=len(data),
        )
