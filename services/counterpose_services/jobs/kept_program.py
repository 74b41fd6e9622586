"""A program that is started again when it dies, until it ends by itself; it never outlives its starter."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from counterpose_services import guard

PAUSES_S = (0.5, 2.0, 5.0, 15.0, 60.0)
"""Before the program is started again, by how often in a row it died soon; the last repeats."""
STEADY_S = 60.0
"""A program that ran for so long and then died may be started again at once."""

_log = logging.getLogger(__name__)


def keep_running(command: Sequence[str]) -> None:
    """Run a program, again and again until it ends with 0.

    It runs under a guard, whose standard input this process holds: when this process ends in whatever way,
    the program is asked to stop, and is killed 10 s later.
    """
    died = 0
    while True:
        began = time.monotonic()
        if (code := _run(command)) == 0:
            return
        died = 1 if time.monotonic() - began > STEADY_S else died + 1
        pause = PAUSES_S[min(died, len(PAUSES_S)) - 1]
        _log.warning("%s ended with %d; it is started again in %g s", command[0], code, pause)
        time.sleep(pause)


def _run(command: Sequence[str]) -> int:
    process = subprocess.Popen(
        [sys.executable, guard.__file__, *command],
        stdin=subprocess.PIPE,
        # The guard leads a group of its own, so that all of it can be ended at once.
        start_new_session=True,
    )
    try:
        return process.wait()
    finally:
        if process.stdin is not None:
            process.stdin.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
