"""The functions and models that a client serves for its runs, one server each, until it is closed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

from counterpose_core.errors import InvalidRequest
from counterpose_core.types import is_loopback

if TYPE_CHECKING:
    # What serves a function is imported with the first one: most programs name their classifiers.
    from counterpose._python_function.model import AnyClassifier
    from counterpose._python_function.probabilities import ServedFunction
    from counterpose._python_function.server import FunctionServer

PREFIX = "py:"

_FUNCTION = re.compile(r"oip:(http://127\.0\.0\.1:\d+/[0-9a-f]{32,}/v2/models/([^/]+)/versions/[^/]+)")


@dataclass(frozen=True)
class NamedClassifiers:
    """Classifiers as a request takes them: their names, and the address of each function by its name.

    ``specs``: what each function was written as, ``py:module:function``; None for an object of this program.
    """

    names: list[str]
    # An address holds a secret.
    functions: dict[str, str] = field(repr=False)
    specs: dict[str, str | None]


class LocalFunctions:
    """Turns ``py:`` specs and model objects into addresses that a gateway on this machine can reach."""

    def __init__(self) -> None:
        self._by_spec: dict[str, FunctionServer] = {}
        self._servers: list[FunctionServer] = []
        self._named: dict[str, str] = {}

    def serve_functions(self, classifiers: Sequence[AnyClassifier], gateway: httpx.URL) -> list[str]:
        """Serve every function and model among ``classifiers``; return the classifiers for the gateway.

        Raises:
            InvalidRequest: the gateway is on another machine, or a function cannot be used.
        """
        if isinstance(classifiers, str):
            raise InvalidRequest(f"classifiers must be a list, such as [{classifiers!r}]")
        return [
            each if isinstance(each, str) and not each.startswith(PREFIX) else self._served(each, gateway)
            for each in classifiers
        ]

    def name_functions(self, specs: Sequence[str]) -> NamedClassifiers:
        """Give each served function among ``specs`` the name that reports call it, each name once."""
        taken, functions = {spec for spec in specs if not _FUNCTION.fullmatch(spec)}, dict[str, str]()
        names = list[str]()
        for spec in specs:
            if (found := _FUNCTION.fullmatch(spec)) is None:
                names.append(spec)
                continue
            address, name = found.groups()
            known = next((own for own, one in functions.items() if one == address), None)
            names.append(known or _unused(name, taken))
            taken.add(names[-1])
            functions[names[-1]] = address
        self._named |= functions
        written = {each.address: each.function.spec for each in self._servers}
        told = {name: written.get(address, "") for name, address in functions.items()}
        typed = {name: spec if spec.startswith(PREFIX) else None for name, spec in told.items()}
        return NamedClassifiers(names, functions, typed)

    def functions_named(self, names: Iterable[str]) -> dict[str, str]:
        """Return the addresses of those of ``names`` that this client serves, for a follow-up run."""
        return {name: self._named[name] for name in names if name in self._named}

    def close(self) -> None:
        """Stop serving all of them."""
        self._by_spec.clear()
        self._named.clear()
        while self._servers:
            self._servers.pop().close()

    def _served(self, classifier: AnyClassifier, gateway: httpx.URL) -> str:
        from counterpose._python_function.function import PythonFunction
        from counterpose._python_function.model import ModelObject

        if not isinstance(classifier, str):
            _require_here(f"{classifier!r} is an object in this program", gateway)
            return self._serve(ModelObject(classifier)).spec
        _require_here(f"{classifier!r} is a function on this machine", gateway)
        if classifier not in self._by_spec:
            self._by_spec[classifier] = self._serve(PythonFunction(classifier))
        return self._by_spec[classifier].spec

    def _serve(self, function: ServedFunction) -> FunctionServer:
        from counterpose._python_function.server import FunctionServer

        self._servers.append(FunctionServer(function))
        return self._servers[-1]


def _require_here(what: str, gateway: httpx.URL) -> None:
    if not is_loopback(gateway.host):
        raise InvalidRequest(
            f"{what}, but the gateway is on {gateway.host!r}: use a gateway on this machine, or serve the "
            "model where that gateway reaches it as oip:<url>"
        )


def _unused(name: str, taken: set[str]) -> str:
    tried = itertools.chain((name,), (f"{name}-{number}" for number in itertools.count(2)))
    return next(one for one in tried if one not in taken)
