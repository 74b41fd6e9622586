"""What a replica does as it loads its models: keeps digests of their files, and tells which file is read.

The launcher writes a line for each of these files.

The model libraries report no progress. The kernel does: how much of a mapped file is in memory, and how far
an open one is read. Systems without ``/proc`` are told nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from counterpose_core.suite import load_suite
from counterpose_core.weights_reading import WeightsReading, current_readings, forget_reading, write_reading
from counterpose_services.models.file_digests import DIGESTS
from counterpose_services.models.inventory import models_of
from counterpose_services.settings import ServiceName, ServiceSettings

DIGESTS_FOLDER = "digests"
LOOK_S = 1.0
PROC = Path("/proc/self")
KIBIBYTE = 1024


@contextmanager
def starting(settings: ServiceSettings, service: ServiceName) -> Iterator[None]:
    """Keep digests in the state folder, and tell there what ``service`` reads, until the block ends."""
    DIGESTS.keep_in(settings.state_dir / DIGESTS_FOLDER)
    ended = threading.Event()
    files = weights_by_path(settings, service)
    telling = threading.Thread(
        target=_tell, args=(settings.state_dir, service, files, ended), name="weights", daemon=True
    )
    telling.start()
    try:
        yield
    finally:
        ended.set()
        telling.join()


def weights_by_path(settings: ServiceSettings, service: ServiceName) -> dict[str, str]:
    """Return how each file of the service's weights is called, by its path with links resolved."""
    found = models_of(service, load_suite(settings.suite, settings), settings)
    return {
        # The hub's cache links to files whose names are digests.
        str(file.resolve()): file.relative_to(model.folder).as_posix()
        for model in found
        if model.folder is not None
        for file in model.folder.rglob("*.safetensors")
    }


def _tell(state: Path, service: ServiceName, files: Mapping[str, str], ended: threading.Event) -> None:
    replica, before = f"{service}-{os.getpid()}", dict[str, int]()
    now = ""
    # A full disk stops no start.
    with suppress(OSError):
        while not ended.wait(LOOK_S):
            read = bytes_read(files)
            now = next((path for path, count in read.items() if count > before.get(path, 0)), now)
            before |= read
            if now in read:
                size = Path(now).stat().st_size
                seen = WeightsReading(
                    service=service, file=files[now], read_bytes=min(read[now], size), size_bytes=size
                )
                write_reading(state, replica, seen)
    with suppress(OSError):
        forget_reading(state, replica)


def bytes_read(files: Mapping[str, str], proc: Path = PROC) -> dict[str, int]:
    """Return how many bytes of each of ``files`` this process has read, for those it has mapped or open."""
    found = _mapped(files, proc)
    for path, count in _opened(files, proc):
        found[path] = max(count, found.get(path, 0))
    return found


def _mapped(files: Mapping[str, str], proc: Path) -> dict[str, int]:
    found = dict[str, int]()
    path = ""
    with suppress(FileNotFoundError), (proc / "smaps").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("Rss:"):
                if path in files:
                    found[path] = found.get(path, 0) + int(line.split()[1]) * KIBIBYTE
            elif not line[0].isupper():
                # A mapping's first line: range, rights, offset, device, inode and, of a file, the path.
                path = f"/{line.rstrip().partition('/')[2]}"
    return found


def _opened(files: Mapping[str, str], proc: Path) -> Iterator[tuple[str, int]]:
    for entry in (proc / "fd").glob("*"):
        # Other threads close files meanwhile.
        with suppress(OSError):
            path = str(entry.readlink())
            if path in files:
                fields = (proc / "fdinfo" / entry.name).read_text(encoding="ascii").splitlines()
                yield path, int(fields[0].split()[1])


@contextmanager
def telling(state: Path) -> Iterator[Callable[[], None]]:
    """Write these lines beside a start that blocks; yield what ends them, which the block's end does, too."""
    ended, logged = threading.Event(), set[tuple[str, str]]()

    def tell() -> None:
        while not ended.wait(LOOK_S):
            for one in current_readings(state):
                if (one.service, one.file) not in logged:
                    logged.add((one.service, one.file))
                    sys.stdout.write(f"{one}\n")
                    sys.stdout.flush()

    thread = threading.Thread(target=tell, name="reading lines", daemon=True)

    def end() -> None:
        ended.set()
        thread.join()

    thread.start()
    try:
        yield end
    finally:
        end()
