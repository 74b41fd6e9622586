"""``python forked_worker.py SOCKET WORKER ...``: has the fork server run a Ray worker, and waits for its end.

Ray starts this program in place of Python. It hands its arguments, environment, folder and standard streams
to the fork server, and ends when the worker does; the worker ends when this program is killed. Without a
server it becomes the worker itself. It imports nothing of ours, so that it starts in a moment.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

STREAMS = (0, 1, 2)
END = b"\n"
ENDED_FIRST = Path("/proc/self/oom_score_adj")
"""Which process the kernel ends where memory runs out: a worker before anything else, as Ray sets it here."""


def main(address: str, worker: list[str]) -> None:
    """Run the worker in a fork, or else here."""
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(address)
        request = {
            "argv": worker,
            "environ": dict(os.environ),
            "folder": str(Path.cwd()),
            "first_to_end": ENDED_FIRST.read_text(encoding="ascii"),
        }
        socket.send_fds(server, [json.dumps(request).encode() + END], STREAMS)
        started = server.recv(1)
    except OSError:
        started = b""
    if not started:
        os.execv(sys.executable, [sys.executable, *worker])
    server.recv(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
