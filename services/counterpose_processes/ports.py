"""Ports of this machine: which are free, and where a server answers."""

from __future__ import annotations

import http.client
import secrets
import socket

LOOPBACK = "127.0.0.1"
_CONNECTION_S = 5.0
# Below the ports that Linux and macOS lend to outgoing connections, above those of Ray and its workers.
_LISTENERS = range(20_000, 32_768)
_DRAWS = 100


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
    """Return a port of loopback that no program listens on now, and that no outgoing connection is lent.

    Whoever asks listens seconds later, when its libraries are loaded. A port that the system itself would
    choose may by then be some connection's own end.
    """
    draws = (secrets.choice(_LISTENERS) for _ in range(_DRAWS))
    port = next((draw for draw in draws if is_free(draw)), None)
    if port is not None:
        return port
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
