"""The functions and models that a client serves for its runs, one server each, until it is closed."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import httpx

from faultline._python_function.function import PREFIX, PythonFunction
from faultline._python_function.model import AnyClassifier, ModelObject
from faultline._python_function.probabilities import ServedFunction
from faultline._python_function.server import FunctionServer
from faultline_core.errors import InvalidRequest


class LocalFunctions:
    """Turns ``py:`` specs and model objects into addresses that a gateway on this machine can reach."""

    def __init__(self) -> None:
        self._by_spec: dict[str, FunctionServer] = {}
        self._servers: list[FunctionServer] = []

    def serve_functions(self, classifiers: Sequence[AnyClassifier], gateway: httpx.URL) -> list[str]:
        """Serve every function and model among ``classifiers``; return the classifiers for the gateway.

        Raises:
            InvalidRequest: the gateway is on another machine, or a function cannot be used.
        """
        if isinstance(classifiers, str):
            raise InvalidRequest(f"classifiers must be a list, such as [{classifiers!r}]")
        return [self._served(each, gateway) for each in classifiers]

    def close(self) -> None:
        """Stop serving all of them."""
        self._by_spec.clear()
        while self._servers:
            self._servers.pop().close()

    def _served(self, classifier: AnyClassifier, gateway: httpx.URL) -> str:
        if not isinstance(classifier, str):
            _require_here(f"{classifier!r} is an object in this program", gateway)
            return self._serve(ModelObject(classifier)).spec
        if not classifier.startswith(PREFIX):
            return classifier
        _require_here(f"{classifier!r} is a function on this machine", gateway)
        if classifier not in self._by_spec:
            self._by_spec[classifier] = self._serve(PythonFunction(classifier))
        return self._by_spec[classifier].spec

    def _serve(self, function: ServedFunction) -> FunctionServer:
        self._servers.append(FunctionServer(function))
        return self._servers[-1]


def _require_here(what: str, gateway: httpx.URL) -> None:
    if not _is_here(gateway.host):
        raise InvalidRequest(
            f"{what}, but the gateway is on {gateway.host!r}: use a gateway on this machine, or serve the "
            "model where that gateway reaches it as oip:<url>"
        )


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
