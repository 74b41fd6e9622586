"""A function of images as a classifier: what it must return, and what is said where it returns anything else.

The function takes images as an array of uint8 RGB (n, height, width, 3) and returns probabilities: an array
(n, classes), or a mapping from class name to n numbers.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from counterpose_core.errors import InvalidRequest

LARGEST_SIDE = 1024
"""The largest input that the services send to a remote classifier."""
SUM_TOLERANCE = 1e-3
LONGEST_MESSAGE = 300
LONGEST_NAME = 90
"""Six fewer than a name of a request may have: two models of one name are numbered."""


MOST_NAMED = 5
"""Names that are there twice which a refusal tells."""


class Unusable(Exception):
    """The function returned something other than probabilities."""


class ServedFunction:
    """A function with its classes and input size, tried once; if it raises later, only that image fails.

    Args:
        function: from images (n, height, width, 3), uint8, to probabilities (n, classes).
        spec: how the caller named it, for messages.
        name: the model's name in its address.
        size: height and width of the images that it takes.
        classes: the class names in the order of its answers; None for the dataset's.
        fed_otherwise: the same function behind other preparations of its images, by a name of `PREPARATIONS`.

    Raises:
        InvalidRequest: it fails on two grey images, or size or classes are not usable.
    """

    version = ""

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        spec: str,
        name: str,
        size: object,
        classes: object,
        fed_otherwise: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self.spec, self.name = spec, named(name)
        self.size = _size(size, spec)
        self.classes = None if classes is None else _names(classes, spec)
        self._functions = {"": function, **(fed_otherwise or {})}
        self._numpy = _numpy(spec)
        self.n_classes = self._try_out()

    @property
    def preparations(self) -> list[str]:
        """The other preparations of its images that can be tried."""
        return [name for name in self._functions if name]

    def rows(self, pixels: bytes, n: int, prepared: str = "") -> list[list[float] | str]:
        """Classify ``n`` images given as bytes: return the probabilities of each, or its error message."""
        images = self._numpy.frombuffer(pixels, dtype=self._numpy.uint8).reshape(n, *self.size, 3)
        # A copy: an array over a buffer is read-only, and a function may write to its input.
        return self._rows(images.copy(), 0, prepared)

    def _rows(self, images: Any, first: int, prepared: str) -> list[list[float] | str]:
        try:
            found = self._probabilities(images, first, prepared)
            if found.shape[1] != self.n_classes:
                raise Unusable(f"it returned {found.shape[1]} classes, but {self.n_classes} before")
            rows: list[list[float] | str] = found.tolist()
        # Everything: whatever the user's code raises, the next image must be classified.
        except (Exception, SystemExit) as error:
            if len(images) == 1:
                return [message(error)]
            alone = (self._rows(images[at : at + 1], first + at, prepared) for at in range(len(images)))
            return [row for rows in alone for row in rows]
        return rows

    def _probabilities(self, images: Any, first: int, prepared: str = "") -> Any:
        numpy, n = self._numpy, len(images)
        found = self._functions[prepared](images)
        if isinstance(found, Mapping):
            found = numpy.stack([numpy.asarray(numbers) for numbers in self._in_order(found)], axis=-1)
        odds = numpy.asarray(on_cpu(found), dtype=numpy.float64)
        if odds.ndim != 2 or len(odds) != n:
            raise Unusable(f"it returned an array of shape {odds.shape} for {n} images")
        # Written so that NaN is rejected, too.
        wrong = ~((odds >= -SUM_TOLERANCE).all(axis=1) & (abs(odds.sum(axis=1) - 1.0) <= SUM_TOLERANCE))
        if wrong.any():
            at = int(wrong.argmax())
            raise Unusable(f"it returned a row {first + at} that is not probabilities: {_fault(odds[at])}")
        return odds

    def _in_order(self, found: Mapping[Any, Any]) -> list[Any]:
        if self.classes is None:
            self.classes = _names(list(found), self.spec)
        if set(found) != set(self.classes):
            raise Unusable(f"it returned the classes {sorted(map(str, found))}, not {sorted(self.classes)}")
        return [found[name] for name in self.classes]

    def _try_out(self) -> int:
        # Two, so that a function that handles only one image fails now and not during a run.
        grey = self._numpy.full((2, *self.size, 3), 128, dtype=self._numpy.uint8)
        try:
            width = int(self._probabilities(grey, 0).shape[1])
        except (Exception, SystemExit) as error:
            raise InvalidRequest(f"{self.spec!r} fails on two grey images: {message(error)}") from error
        if self.classes is not None and len(self.classes) != width:
            raise InvalidRequest(
                f"{self.spec!r} returned {width} classes, but it names {len(self.classes)}: "
                f"{', '.join(self.classes[:5])}"
            )
        return width


def blue_first(images: Any) -> Any:
    """Swap red and blue of images (n, height, width, 3)."""
    return images[..., ::-1].copy()


def named(name: str) -> str:
    """Return a name that requests, addresses and reports may use."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:LONGEST_NAME].strip("-._") or "model"


def on_cpu(found: Any) -> Any:
    """Turn a torch tensor into an array; leave everything else as it is."""
    # By its methods: torch is not imported for a caller who does not use it.
    return found.detach().cpu().double().numpy() if hasattr(found, "detach") else found


def message(error: BaseException) -> str:
    """Say in one line what went wrong."""
    said = str(error) if isinstance(error, Unusable) else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:LONGEST_MESSAGE]


def _fault(row: Any) -> str:
    if not abs(row).max() < float("inf"):
        return "it has NaN or infinite numbers"
    if (row < -SUM_TOLERANCE).any():
        return f"it has {row.min():.3g}, which is below 0 (are these logits?)"
    return f"it sums to {row.sum():.3g}, not 1 (are these logits?)"


def _numpy(spec: str) -> Any:
    # Imported by name and only now: the SDK does not need NumPy, but authors of such functions have it.
    try:
        return importlib.import_module("numpy")
    except ImportError as error:
        raise InvalidRequest(
            f"{spec!r} takes arrays, but NumPy is not installed: pip install numpy"
        ) from error


def _size(found: object, spec: str) -> tuple[int, int]:
    sides = tuple(found) if isinstance(found, (tuple, list)) else ()
    if len(sides) != 2 or not all(type(side) is int and 0 < side <= LARGEST_SIDE for side in sides):
        raise InvalidRequest(
            f"{spec!r}: input_size must be (height, width), each 1 to {LARGEST_SIDE}, not {found!r}"
        )
    return sides


def _names(found: object, spec: str) -> list[str]:
    names = list(found) if isinstance(found, Sequence) and not isinstance(found, str) else []
    if not names or not all(isinstance(name, str) for name in names):
        other = next((name for name in names if not isinstance(name, str)), found)
        raise InvalidRequest(f"{spec!r}: classes must be a list of names, not {repr(other)[:80]}")
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        rows = "; ".join(f"{name!r} is {_rows(names, name)}" for name in twice[:MOST_NAMED])
        raise InvalidRequest(
            f"{spec!r}: classes must have distinct names, but {rows}; write what tells them apart, such as "
            f"{twice[0] + ' (2)'!r}"
        )
    return names


def _rows(names: Sequence[str], name: str) -> str:
    return "rows " + " and ".join(str(row) for row, each in enumerate(names) if each == name)
