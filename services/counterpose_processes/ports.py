"""Ports of this machine: which are free, and where a server answers."""

from __future__ import annotations

import http.client
import socket

LOOPBACK = "127.0.0.1"
_CONNECTION_S = 5.0


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Tell whether a program may listen on a port of an address; on another machine's it never may."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # Closed connections keep a port for a minute, but do not prevent listening on it.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port of loopback that no program listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def answers(port: int, path: str) -> bool:
    """Tell whether a server on a port of loopback answers 200 to a path, which says that it is ready."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_CONNECTION_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
