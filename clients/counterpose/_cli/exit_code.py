"""Exit codes of the command: what each says."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit code says."""

    PASSED = 0
    FAILED = 1
    USAGE = 2
    INCOMPLETE = 3
    REFUSED = 4
    INCONCLUSIVE = 5
    INTERRUPTED = 130
