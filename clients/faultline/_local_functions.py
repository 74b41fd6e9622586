"""The Python functions that a client serves for its runs: one server each, until the client is closed."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import httpx

from faultline._function_server import FunctionServer
from faultline._python_function import PREFIX, PythonFunction
from faultline_core.errors import InvalidRequest


class LocalFunctions:
    """Turns ``py:`` specs into addresses on this machine, for a gateway on this machine."""

    def __init__(self) -> None:
        self._servers: dict[str, FunctionServer] = {}

    def served(self, classifiers: Sequence[str], gateway: httpx.URL) -> list[str]:
        """Serve every function among ``classifiers`` and return what the gateway is to be told.

        Raises:
            InvalidRequest: the gateway is on another machine, or a function cannot be used.
        """
        return [self._served(spec, gateway) if spec.startswith(PREFIX) else spec for spec in classifiers]

    def close(self) -> None:
        """Serve none any more."""
        while self._servers:
            self._servers.popitem()[1].close()

    def _served(self, spec: str, gateway: httpx.URL) -> str:
        if not _is_here(gateway.host):
            raise InvalidRequest(
                f"{spec!r} is a function of this machine and the gateway {gateway.host!r} is on another: use "
                "a gateway here, or serve the model where that gateway reaches it and name it oip:<url>"
            )
        if spec not in self._servers:
            self._servers[spec] = FunctionServer(PythonFunction(spec))
        return self._servers[spec].spec


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
