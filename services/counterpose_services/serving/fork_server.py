"""A process that has imported what Ray's workers import, and forks one for each worker that Ray starts.

An import of the model libraries takes seconds of a processor and hundreds of MB, once instead of for every
replica: a forked process shares its parent's pages until it writes to them. Ray itself is not among what is
imported, because it reads its settings from the environment of the worker.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterpose_services.serving import forked_worker

CAN_FORK = sys.platform == "linux"
"""Elsewhere a process that has loaded the system's own libraries must not fork."""
BACKLOG = 128
REQUEST_BYTES = 2**20
STARTED = b"1"


@contextmanager
def fork_server(address: Path, modules: Sequence[str], threads: int) -> Iterator[str]:
    """Start a server that imports ``modules``; yield the command that starts a worker, in place of Python.

    Args:
        address: the file of its socket, in a folder that only its owner can read.
        modules: what workers import; one that cannot be imported is left to the worker that needs it.
        threads: processor threads of a worker, which torch reads as it is imported.
    """
    # Workers that start while the modules are imported wait here.
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(address))
    listener.listen(BACKLOG)
    server = subprocess.Popen(
        # Without -P a file of the current folder would be imported in place of a library.
        [sys.executable, "-P", "-m", __name__, str(listener.fileno()), *modules],
        stdin=subprocess.PIPE,
        pass_fds=[listener.fileno()],
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
    )
    listener.close()
    try:
        yield shlex.join([sys.executable, "-S", "-E", forked_worker.__file__, str(address)])
    finally:
        # It ends as its input closes, also if this process is killed.
        server.communicate()


@dataclass(frozen=True)
class Request:
    """A worker to run: its command line, environment and folder, and where its caller waits for its end.

    ``first_to_end`` is its place among those that the kernel ends where memory runs out.
    """

    argv: list[str]
    environ: dict[str, str]
    folder: str
    first_to_end: str
    streams: list[int]
    caller: socket.socket

    @classmethod
    def received(cls, caller: socket.socket) -> Request:
        """Read it from a connection.

        Raises:
            ValueError: the caller ended meanwhile.
        """
        line, streams, _, _ = socket.recv_fds(caller, REQUEST_BYTES, len(forked_worker.STREAMS))
        while not line.endswith(forked_worker.END):
            more = caller.recv(REQUEST_BYTES)
            if not more:
                raise ValueError("the request ended within its line")
            line += more
        fields: dict[str, Any] = json.loads(line)
        return cls(**fields, streams=streams, caller=caller)

    def close(self) -> None:
        """Close what a fork has taken over."""
        for stream in self.streams:
            os.close(stream)
        self.caller.close()

    def become(self) -> None:
        """Give this process the request's streams, environment, folder and arguments."""
        for stream, own in zip(self.streams, forked_worker.STREAMS, strict=True):
            os.dup2(stream, own)
            os.close(stream)
        os.environ.clear()
        os.environ.update(self.environ)
        os.chdir(self.folder)
        with suppress(PermissionError):
            forked_worker.ENDED_FIRST.write_text(self.first_to_end, encoding="ascii")
        sys.argv[:] = self.argv
        self.caller.sendall(STARTED)
        threading.Thread(target=self._end_with_caller, name="caller", daemon=True).start()

    def _end_with_caller(self) -> None:
        with suppress(OSError):
            self.caller.recv(1)
        os._exit(1)


def forked(listener: socket.socket) -> Request | None:
    """Fork for each request until standard input closes; return a fork's request, and None in the server."""
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return None
        try:
            request = Request.received(listener.accept()[0])
        except (OSError, ValueError):
            continue
        if os.fork() == 0:
            return request
        request.close()


def main(descriptor: int, modules: Sequence[str]) -> None:
    """Import, and then be each worker that is asked for."""
    listener = socket.socket(fileno=descriptor)
    # Nothing that an import allocates is garbage; a collection would only look at all of it again.
    gc.disable()
    for module in modules:
        # Whatever is wrong with it, the worker that imports it will say so.
        with suppress(Exception):
            importlib.import_module(module)
    # Nor is it later: what is not looked at is not written to, and so stays shared.
    gc.freeze()
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    request = forked(listener)
    listener.close()
    if request is not None:
        signal.signal(signal.SIGCHLD, before)
        gc.enable()
        request.become()
        runpy.run_path(request.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
