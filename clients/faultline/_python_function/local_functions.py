"""The Python functions that a client serves for its runs, one server each, until it is closed."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import httpx

from faultline._python_function.function import PREFIX, PythonFunction
from faultline._python_function.server import FunctionServer
from faultline_core.errors import InvalidRequest


class LocalFunctions:
    """Turns ``py:`` specs into addresses that a gateway on this machine can reach."""

    def __init__(self) -> None:
        self._servers: dict[str, FunctionServer] = {}

    def serve_functions(self, classifiers: Sequence[str], gateway: httpx.URL) -> list[str]:
        """Serve every function among ``classifiers`` and return the classifiers for the gateway.

        Raises:
            InvalidRequest: the gateway is on another machine, or a function cannot be used.
        """
        return [self._serve(spec, gateway) if spec.startswith(PREFIX) else spec for spec in classifiers]

    def close(self) -> None:
        """Stop serving all functions."""
        while self._servers:
            self._servers.popitem()[1].close()

    def _serve(self, spec: str, gateway: httpx.URL) -> str:
        if not _is_here(gateway.host):
            raise InvalidRequest(
                f"{spec!r} is a function on this machine, but the gateway is on {gateway.host!r}: use a "
                "gateway on this machine, or serve the model where that gateway reaches it as oip:<url>"
            )
        if spec not in self._servers:
            self._servers[spec] = FunctionServer(PythonFunction(spec))
        return self._servers[spec].spec


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
