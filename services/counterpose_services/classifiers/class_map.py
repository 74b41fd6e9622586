"""From the dataset's classes to the rows of a classifier's head."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterpose_core.errors import ClassMapMismatch
from counterpose_core.text.folder_names import name_of_id
from counterpose_core.text.near_names import did_you_mean
from counterpose_services.models.cached_forward import Floats

MOST_NAMED = 5
"""Classes without a row that a refusal names."""

LabelMap = Mapping[str, Sequence[str]]
"""For each dataset class, the names of the head classes whose probabilities are summed."""


def read_label_map(file: Path | None) -> LabelMap:
    """Read a JSON object of class → list of head classes; no file gives an empty map.

    Raises:
        ClassMapMismatch: the file does not contain such an object.
    """
    if file is None:
        return {}
    found = _read_json(file, f"the label map {file.name!r} cannot be read; write it as a JSON object")
    if not isinstance(found, dict) or not all(_is_names(names) for names in found.values()):
        raise ClassMapMismatch(
            f"the label map {file.name!r} is not a JSON object from class names to lists of head classes"
        )
    return found


def _read_json(file: Path, unreadable: str) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ClassMapMismatch(unreadable) from error


def read_class_map(file: Path) -> HeadClasses:
    """Read a JSON list of class names in the head's order.

    Raises:
        ClassMapMismatch: the file is missing or is not such a list, or two of its names are equal.
    """
    found = _read_json(
        file, f"{file.parent.name!r} has no readable {file.name}; add a JSON list of class names"
    )
    if not _is_names(found):
        raise ClassMapMismatch(f"{file.name} of {file.parent.name!r} is not a JSON list of names")
    counted = Counter(map(_key, found))
    if twice := next((name for name in found if counted[_key(name)] > 1), None):
        # It would be unclear which of the two rows the name means.
        raise ClassMapMismatch(
            f"{file.name} of {file.parent.name!r} has {twice!r} twice, ignoring case; keep one"
        )
    # Images of a folder that is named by an id have the class's name; a head may list the ids.
    return HeadClasses(
        tuple((name,) if (called := name_of_id(name)) is None else (name, called) for name in found)
    )


def _is_names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_name(name) for name in value)


def _is_name(value: object) -> bool:
    # JSON can contain a lone surrogate, which our answers cannot encode.
    return isinstance(value, str) and bool(value.strip()) and value.encode(errors="replace").decode() == value


@dataclass(frozen=True)
class HeadClasses:
    """The names of each row of the head: the first ``own`` are the row's own names, the others synonyms."""

    names: tuple[tuple[str, ...], ...]
    own: int = 1

    def __len__(self) -> int:
        return len(self.names)

    @property
    def own_names(self) -> list[str]:
        """The name of each row, in the head's order."""
        return [names[0] for names in self.names]

    def selection(self, classes: Sequence[str], label_map: LabelMap) -> Selection:
        """Find the rows of each dataset class.

        Raises:
            ClassMapMismatch: a class has no row, several rows of the same name, or a row of another class.
        """
        own = _index(names[: self.own] for names in self.names)
        # A class's own name precedes another's synonym: in ImageNet, a mouth organ is also called a harp.
        index = _index(self.names) | own
        asked = {name: label_map.get(name, [name]) for name in classes}
        self._require(index, [(name, named) for name in classes for named in asked[name]])
        rows = [tuple(_only_row(index, named) for named in asked[name]) for name in classes]
        taken = [row for group in rows for row in group]
        for name, group in zip(classes, rows, strict=True):
            if any(taken.count(row) > 1 for row in group):
                raise ClassMapMismatch(
                    f"the class {name!r} shares a head class with another class; change the label map"
                )
        return Selection(tuple(rows))

    def _require(self, index: Mapping[str, set[int]], asked: Sequence[tuple[str, str]]) -> None:
        lacking = [(name, named) for name, named in asked if _key(named) not in index]
        if not lacking:
            return
        there = [name for names in self.names for name in names]
        told = [f"{named!r} for {name!r}{did_you_mean(named, there)}" for name, named in lacking[:MOST_NAMED]]
        more = f" and {len(lacking) - MOST_NAMED} more" if len(lacking) > MOST_NAMED else ""
        raise ClassMapMismatch(
            f"the classifier has no class {', '.join(told)}{more}; name one of its classes in a label map"
        )


def _index(rows: Iterable[Sequence[str]]) -> dict[str, set[int]]:
    index: dict[str, set[int]] = {}
    for row, names in enumerate(rows):
        for name in names:
            index.setdefault(_key(name), set()).add(row)
    return index


def _key(name: str) -> str:
    # Folders say ice_bear, ImageNet's list says Ice Bear.
    return name.strip().replace("_", " ").casefold()


def _only_row(index: Mapping[str, set[int]], named: str) -> int:
    rows = index[_key(named)]
    if len(rows) > 1:
        raise ClassMapMismatch(
            f"{named!r} matches {len(rows)} classes of the classifier; choose one in a label map"
        )
    return next(iter(rows))


@dataclass(frozen=True)
class Selection:
    """The rows of each dataset class."""

    rows: tuple[tuple[int, ...], ...]

    def __call__(self, head: Floats) -> Floats:
        """Sum the head's probabilities (C,) over each class's rows (n,)."""
        return np.array([head[list(group)].sum() for group in self.rows], dtype=np.float32)
