"""The folder of a gateway's column files: a cache of what its ledger says, bounded and made anew at will."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from counterpose_gateway.summaries.columns.parts import Part
from counterpose_gateway.summaries.columns.segments import UNFINISHED, read_segment, write_segment
from counterpose_gateway.summaries.columns.stamps import Stamps

FREE_BYTES = 1_000_000_000
"""The cache leaves so much of the disk free: the ledger may share it."""

UNFINISHED_SECONDS = 3600.0
"""After so long a file that is being written was left by a killed process."""

_SUFFIX = ".columns"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ColumnFolder:
    """Segments by run and number; at most ``most_bytes``, of which the runs read longest ago go first.

    A file that is missing, damaged or no longer true is only a reason to read the ledger.
    """

    path: Path
    most_bytes: int

    def read(self, run_id: str, number: int, stamps: Stamps, made_by: str) -> Part | None:
        """Return a part of a run if it is kept of items with these stamps, as `read_segment`."""
        return read_segment(self._file(run_id, number), stamps, made_by)

    def write(self, run_id: str, number: int, part: Part, stamps: Stamps, made_by: str) -> bool:
        """Keep a part of a run if there is room; returns whether it is kept."""
        file = self._file(run_id, number)
        try:
            if self._is_full(run_id):
                return False
            file.parent.mkdir(parents=True, exist_ok=True)
            write_segment(file, part, stamps, made_by)
        except OSError as error:
            # Most likely the disk is full. Nothing is lost: who sums up reads the ledger.
            _logger.warning("columns of run %s are not kept: %s", run_id, error)
            return False
        return True

    def kept(self, run_id: str) -> set[int]:
        """Return the numbers of the segments that there are of a run; they may be out of date."""
        names = (path.name for path in self._files(self.path / run_id))
        return {int(name.removesuffix(_SUFFIX)) for name in names if name.endswith(_SUFFIX)}

    def used(self, run_id: str) -> None:
        """Note that a run is summed up now."""
        with contextlib.suppress(OSError):
            os.utime(self.path / run_id)

    def remove(self, run_id: str) -> None:
        """Remove what is kept of a run; who reads it now goes on."""
        shutil.rmtree(self.path / run_id, ignore_errors=True)

    def sweep(self, known: Callable[[Collection[str]], Collection[str]]) -> None:
        """Remove what is kept of runs that are gone, and what killed writers left.

        Args:
            known: returns which of these runs there are.
        """
        runs = [path.name for path in self._runs()]
        for gone in set(runs) - set(known(runs)):
            self.remove(gone)
        old = time.time() - UNFINISHED_SECONDS
        for run in self._runs():
            for file in self._files(run):
                path = Path(file.path)
                if file.name.endswith(UNFINISHED) and _time(path) < old:
                    path.unlink(missing_ok=True)

    def bytes_of_runs(self) -> dict[str, int]:
        """Return the bytes of each run's files."""
        return {
            path.name: sum(file.stat().st_size for file in self._files(path)) for path in self._runs()
        }  # fmt: skip

    def _is_full(self, run_id: str) -> bool:
        """Whether there is no room, after runs that were read longest ago have made some."""
        sizes = self.bytes_of_runs()
        oldest = sorted((path for path in self._runs() if path.name != run_id), key=_time)
        for path in oldest:
            if sum(sizes.values()) < self.most_bytes:
                break
            self.remove(path.name)
            sizes.pop(path.name, None)
        existing = next(path for path in (self.path, *self.path.parents) if path.exists())
        return sum(sizes.values()) >= self.most_bytes or shutil.disk_usage(existing).free < FREE_BYTES

    def _file(self, run_id: str, number: int) -> Path:
        return self.path / run_id / f"{number:06}{_SUFFIX}"

    def _runs(self) -> list[Path]:
        return [Path(entry.path) for entry in self._files(self.path) if entry.is_dir()]

    def _files(self, path: Path) -> Iterator[os.DirEntry[str]]:
        # Another process may remove it meanwhile.
        with contextlib.suppress(FileNotFoundError), os.scandir(path) as entries:
            yield from entries


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
