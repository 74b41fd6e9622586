"""``py:module:function``: a classifier that is the user's own Python function.

Its module may define ``classes``, the class names in order (default: the dataset's, in its order), and
``input_size`` = (height, width) (default: 224, 224).
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from counterpose._python_function.probabilities import ServedFunction, blue_first, message
from counterpose_core.errors import InvalidRequest

PREFIX = "py:"
DEFAULT_SIZE = (224, 224)

_SPEC = re.compile(r"py:([A-Za-z]\w*(?:\.[A-Za-z]\w*)*):([A-Za-z]\w*)", re.ASCII)


class PythonFunction(ServedFunction):
    """The function behind a spec.

    Raises:
        InvalidRequest: there is no such function, or it fails on two grey images.
    """

    def __init__(self, spec: str) -> None:
        function, module = function_of(spec)
        super().__init__(
            function,
            spec=spec,
            name=spec.removeprefix(PREFIX).replace(":", "."),
            size=getattr(module, "input_size", DEFAULT_SIZE),
            classes=getattr(module, "classes", None),
            fed_otherwise={"blue-first": lambda images: function(blue_first(images))},
        )
        self.version = _version(module, self.size, self.classes)


def function_of(spec: str) -> tuple[Callable[..., Any], ModuleType]:
    """Import the function of a spec, and its module.

    Raises:
        InvalidRequest: there is none.
    """
    matched = _SPEC.fullmatch(spec)
    if matched is None:
        raise InvalidRequest(f"{spec!r} is not a function: expected py:module:function")
    module_name, function_name = matched.groups()
    module = _imported(module_name, spec)
    function: Callable[..., Any] | None = getattr(module, function_name, None)
    if not callable(function):
        raise InvalidRequest(f"{spec!r}: the module {module_name!r} has no function {function_name!r}")
    return function, module


def _imported(name: str, spec: str) -> ModuleType:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise InvalidRequest(f"{spec!r}: cannot import {name!r}: {message(error)}") from error


def _version(module: ModuleType, size: tuple[int, int], classes: list[str] | None) -> str:
    # Part of the address: services cache what an address returned, so a changed function needs a new one.
    file = getattr(module, "__file__", None)
    source = Path(file).read_bytes() if file and Path(file).is_file() else b""
    return hashlib.sha256(repr((source, size, classes)).encode()).hexdigest()[:12]
