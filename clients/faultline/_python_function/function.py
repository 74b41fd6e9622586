"""``py:module:function``: a classifier that is the user's own Python function, and its contract.

The function takes images as an array of uint8 RGB (n, height, width, 3) and returns probabilities: an array
(n, classes), or a mapping from class name to n numbers. Its module may define ``classes``, the class names in
order (default: the dataset's, in its order), and ``input_size`` = (height, width) (default: 224, 224).
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from faultline_core.errors import InvalidRequest

PREFIX = "py:"
DEFAULT_SIZE = (224, 224)
LARGEST_SIDE = 1024
"""The largest input that the services send to a remote classifier."""
SUM_TOLERANCE = 1e-3
LONGEST_MESSAGE = 300

_SPEC = re.compile(r"py:([A-Za-z]\w*(?:\.[A-Za-z]\w*)*):([A-Za-z]\w*)", re.ASCII)


class _Unusable(Exception):
    """The function returned something other than probabilities."""


class PythonFunction:
    """The function behind a spec, tried once; if it raises later, only that image fails.

    Raises:
        InvalidRequest: there is no such function, or it fails on two grey images.
    """

    def __init__(self, spec: str) -> None:
        matched = _SPEC.fullmatch(spec)
        if matched is None:
            raise InvalidRequest(f"{spec!r} is not a function: expected py:module:function")
        module_name, function_name = matched.groups()
        module = _imported(module_name, spec)
        self.spec, self.name = spec, f"{module_name}.{function_name}"
        self._numpy = _numpy(spec)
        self._function: Callable[[Any], Any] = getattr(module, function_name, _absent)
        if self._function is _absent or not callable(self._function):
            raise InvalidRequest(f"{spec!r}: the module {module_name!r} has no function {function_name!r}")
        self.size = _size_of(module, spec)
        self.classes = _classes_of(module, spec)
        self.n_classes = self._try_out()
        self.version = _version(module, self.size, self.classes)

    def rows(self, pixels: bytes, n: int) -> list[list[float] | str]:
        """Classify ``n`` images given as bytes: return the probabilities of each, or its error message."""
        images = self._numpy.frombuffer(pixels, dtype=self._numpy.uint8).reshape(n, *self.size, 3)
        # A copy: an array over a buffer is read-only, and a function may write to its input.
        return self._rows(images.copy())

    def _rows(self, images: Any) -> list[list[float] | str]:
        try:
            found = self._probabilities(images)
            if found.shape[1] != self.n_classes:
                raise _Unusable(f"it returned {found.shape[1]} classes, but {self.n_classes} before")
            rows: list[list[float] | str] = found.tolist()
        # Everything: whatever the user's code raises, the next image must be classified.
        except (Exception, SystemExit) as error:
            if len(images) == 1:
                return [_message(error)]
            return [row for index in range(len(images)) for row in self._rows(images[index : index + 1])]
        return rows

    def _probabilities(self, images: Any) -> Any:
        numpy, n = self._numpy, len(images)
        found = self._function(images)
        if isinstance(found, Mapping):
            found = numpy.stack([numpy.asarray(numbers) for numbers in self._in_order(found)], axis=-1)
        odds = numpy.asarray(found, dtype=numpy.float64)
        if odds.ndim != 2 or len(odds) != n:
            raise _Unusable(f"it returned an array of shape {odds.shape} for {n} images")
        far = numpy.abs(odds.sum(axis=1) - 1.0) > SUM_TOLERANCE
        # Written so that NaN is rejected, too.
        if not (odds >= -SUM_TOLERANCE).all() or far.any():
            raise _Unusable("it returned rows that are not probabilities: at least 0, with sum 1")
        return odds

    def _in_order(self, found: Mapping[Any, Any]) -> list[Any]:
        if self.classes is None:
            self.classes = _names(list(found), self.spec)
        if set(found) != set(self.classes):
            raise _Unusable(f"it returned the classes {sorted(map(str, found))}, not {sorted(self.classes)}")
        return [found[name] for name in self.classes]

    def _try_out(self) -> int:
        # Two, so that a function that handles only one image fails now and not during a run.
        grey = self._numpy.full((2, *self.size, 3), 128, dtype=self._numpy.uint8)
        try:
            width = int(self._probabilities(grey).shape[1])
        except (Exception, SystemExit) as error:
            raise InvalidRequest(f"{self.spec!r} fails on two grey images: {_message(error)}") from error
        if self.classes is not None and len(self.classes) != width:
            raise InvalidRequest(
                f"{self.spec!r} returned {width} classes, but its module defines {len(self.classes)}"
            )
        return width


def _absent(images: Any) -> None:
    """Placeholder for a missing function."""


def _imported(name: str, spec: str) -> ModuleType:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise InvalidRequest(f"{spec!r}: cannot import {name!r}: {_message(error)}") from error


def _numpy(spec: str) -> Any:
    # Imported by name and only now: the SDK does not need NumPy, but authors of such functions have it.
    try:
        return importlib.import_module("numpy")
    except ImportError as error:
        raise InvalidRequest(
            f"{spec!r} takes arrays, but NumPy is not installed: pip install numpy"
        ) from error


def _size_of(module: ModuleType, spec: str) -> tuple[int, int]:
    found = getattr(module, "input_size", DEFAULT_SIZE)
    sides = tuple(found) if isinstance(found, (tuple, list)) else ()
    if len(sides) != 2 or not all(type(side) is int and 0 < side <= LARGEST_SIDE for side in sides):
        raise InvalidRequest(
            f"{spec!r}: input_size must be (height, width), each 1 to {LARGEST_SIDE}, not {found!r}"
        )
    return sides


def _classes_of(module: ModuleType, spec: str) -> list[str] | None:
    found = getattr(module, "classes", None)
    return None if found is None else _names(found, spec)


def _names(found: object, spec: str) -> list[str]:
    names = list(found) if isinstance(found, Sequence) and not isinstance(found, str) else []
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise InvalidRequest(f"{spec!r}: classes must be distinct names, not {found!r}")
    return names


def _version(module: ModuleType, size: tuple[int, int], classes: list[str] | None) -> str:
    # Part of the address: services cache what an address returned, so a changed function needs a new one.
    file = getattr(module, "__file__", None)
    source = Path(file).read_bytes() if file and Path(file).is_file() else b""
    return hashlib.sha256(repr((source, size, classes)).encode()).hexdigest()[:12]


def _message(error: BaseException) -> str:
    said = str(error) if isinstance(error, _Unusable) else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:LONGEST_MESSAGE]
