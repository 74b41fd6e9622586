"""A folder that is there as a whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faultline_core.blobs import NO_ROOM
from faultline_core.errors import InvalidRequest, StorageFull


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Give an empty folder that becomes ``target`` when the block ends well, and is removed when it raises.

    A killed process leaves ``.<name>.partial``, which the next to write the same target empties first.
    Nothing is synced, as that may take longer than the files do: after a loss of power, write it again.

    Raises:
        InvalidRequest: ``target`` holds something, or another process is writing it.
        StorageFull: there is no room.
    """
    _refuse_taken(target)
    partial = target.with_name(f".{target.name}.partial")
    with _claimed(partial):
        _clear(partial)
        try:
            yield partial
            # Somebody may have filled it meanwhile.
            _refuse_taken(target)
            partial.rename(target)
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise StorageFull(f"no room for {str(target)!r}") from error
            raise


def _refuse_taken(target: Path) -> None:
    if target.exists() and not (target.is_dir() and next(target.iterdir(), None) is None):
        raise InvalidRequest(f"{str(target)!r} is there already: remove it or name another folder")


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder itself: it ends with the process, and leaves no file behind."""
    folder.mkdir(exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not _is_ours(handle, folder):
            raise InvalidRequest(f"another process is writing {str(folder)!r}")
        yield
    finally:
        os.close(handle)


def _is_ours(handle: int, folder: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # Whoever held the lock may meanwhile have renamed the folder: then the handle is that of a whole one.
    return folder.is_dir() and os.fstat(handle).st_ino == folder.stat().st_ino


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
