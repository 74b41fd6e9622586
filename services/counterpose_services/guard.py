"""``python guard.py PROGRAM ...``: runs a program that must not outlive who started it.

Whoever starts this process as the leader of a new group holds the other end of its standard input. When that
closes, because its holder ended in whatever way, the program is asked to stop, and after some seconds
everything in the group is killed: a server's workers would otherwise live on when it is killed. This file
imports nothing of ours, so that it starts in a moment.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading

GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, for a guard that is itself killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _stop_when_abandoned(child: subprocess.Popen[bytes]) -> None:
    """Wait until nobody holds the other end of standard input, and then stop the program."""
    while sys.stdin.buffer.read(1):
        pass
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_S)
    os.killpg(0, signal.SIGKILL)


def main(command: list[str]) -> None:
    """Run ``command`` in this group, and end with all that is left of it."""
    # The main thread starts it: the kernel's signal comes with the end of the thread that did.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent)
    threading.Thread(target=_stop_when_abandoned, args=(child,), daemon=True).start()
    if child.wait() == 0:
        # Told to who started this; whatever is left of the group is its to end. Not by a plain return: the
        # other thread waits in a read, which an orderly end of Python does not survive.
        os._exit(0)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
