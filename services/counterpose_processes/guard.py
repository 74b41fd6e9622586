"""Runs a program that must not outlive who started it.

Whoever starts this as the leader of a new group holds the other end of its standard input. When that closes,
because its holder ended in whatever way, the program is asked to stop, and after some seconds everything
below is killed: a server's workers would otherwise live on when it is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from counterpose_processes.process import kill_with_children
from counterpose_processes.system import adopt_orphans, end_with_parent

GRACE_S = 10.0
_ROOT = Path(__file__).resolve().parents[1]
_RUN = f"import sys; sys.path.append(sys.argv[1]); from {__name__} import main; main(sys.argv[2:])"


def guarded(command: Sequence[str]) -> list[str]:
    """Return the command line that runs ``command`` under a guard."""
    # The variables of the program's Python mean another one. Without site-packages it starts in a moment.
    return [sys.executable, "-I", "-S", "-c", _RUN, str(_ROOT), *command]


def main(command: Sequence[str]) -> None:
    """Run ``command`` in this group, and end with all that is left of it."""
    adopt_orphans()
    # This thread starts it: the kernel's signal comes with the end of the thread that did.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
    abandoned = threading.Event()
    threading.Thread(target=_stop_when_abandoned, args=(child.pid, abandoned), daemon=True).start()
    # Orphans that it adopted are reaped on the way.
    while (ended := os.wait())[0] != child.pid:
        pass
    if ended[1] == 0 and not abandoned.is_set():
        # Told to who started this; whatever is left of the group is its to end. Not by a plain return: the
        # other thread waits in a read, which an orderly end of Python does not survive.
        os._exit(0)
    kill_with_children(os.getpid())


def _stop_when_abandoned(child: int, abandoned: threading.Event) -> None:
    """Wait until nobody holds the other end of standard input, and then stop the program."""
    while sys.stdin.buffer.read(1):
        pass
    abandoned.set()
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGTERM)
    time.sleep(GRACE_S)
    kill_with_children(os.getpid())
