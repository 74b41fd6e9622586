"""Where processes of this machine listen, by what the kernel says."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_LISTENS = "0A"


class Listener(NamedTuple):
    """A TCP port that somebody can connect to, and the address that it is bound to."""

    address: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.address).is_loopback


def listeners(*pids: int) -> set[Listener]:
    """The ports on which these processes listen."""
    sockets = {
        link.readlink().name.removeprefix("socket:[").removesuffix("]")
        for pid in pids
        for link in _links(Path(f"/proc/{pid}/fd"))
    }
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text(encoding="utf-8").splitlines()
    ]
    return {
        _listener(fields[1])
        for fields in lines
        if len(fields) > 9 and fields[3] == _LISTENS and fields[9] in sockets
    }


def _listener(written: str) -> Listener:
    address, _, port = written.rpartition(":")
    # Words of four bytes, each in the machine's own order.
    words = [struct.pack("=I", int(address[start : start + 8], 16)) for start in range(0, len(address), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return Listener(socket.inet_ntop(family, b"".join(words)), int(port, 16))


def _links(folder: Path) -> Iterator[Path]:
    try:
        yield from (link for link in folder.iterdir() if link.readlink().name.startswith("socket:"))
    except (FileNotFoundError, ProcessLookupError):
        return
