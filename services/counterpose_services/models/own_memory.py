"""The most memory of this process that is its own: pages of mapped files do not count."""

from __future__ import annotations

import resource
import threading
from pathlib import Path
from types import TracebackType

INTERVAL_S = 0.05
STATUS = Path("/proc/self/status")
KIBIBYTE = 1024


class OwnMemory:
    """Looks at the process's own memory within its context; ``peak_bytes`` is the most that it saw.

    The kernel keeps the most of all resident memory only, which holds the weights twice where a library maps
    their files: once in the file's pages, which the system takes back when it needs them.
    """

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look, name="own memory", daemon=True)

    def __enter__(self) -> OwnMemory:
        self._looking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._looking.join()
        self.peak_bytes = max(self.peak_bytes, own_bytes())

    def _look(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self.peak_bytes = max(self.peak_bytes, own_bytes())


def own_bytes() -> int:
    """Return the memory of this process now that is its own, or the most of all where only that is known."""
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = dict(line.split(":", 1) for line in STATUS.read_text(encoding="ascii").splitlines())
    return int(lines["RssAnon"].split()[0]) * KIBIBYTE
