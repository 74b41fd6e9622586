"""From the dataset's classes to the rows of a classifier's head."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterpose_core.errors import ClassMapMismatch, ModelFormatRefused
from counterpose_core.text.folder_names import name_of_id
from counterpose_core.text.near_names import did_you_mean
from counterpose_services.models.cached_forward import Floats

MOST_NAMED = 5
"""Classes without a row that a refusal names."""

LabelMap = Mapping[str, Sequence[str]]
"""For each dataset class, the names of the head classes whose probabilities are summed.

``#135`` names the row 135, counted from 0: names of some heads are not distinct.
"""

_ROW = re.compile(r"#(\d{1,7})")

NO_LABEL_MAP: LabelMap = {}

NAME_THEM = (
    "name the model's classes in its order (classes=), and where they are called otherwise than the "
    "dataset's, give the run a label map (label_map=, --label-map FILE)"
)
"""What to do about a model that lists no labels and has other classes than the dataset."""


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


def require_several(outputs: int, name: str) -> None:
    """Refuse a head of one output.

    Raises:
        ModelFormatRefused: ``outputs`` is 1.
    """
    if outputs == 1:
        raise ModelFormatRefused(
            f"the head of {name!r} has one output, a yes-or-no score, and its softmax is 1 for any image; "
            "export it with an output for each of its two answers"
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

        A class of which the head has no mapped name, but its own, is taken by its own: then the map was
        written for another classifier of the run.

        Raises:
            ClassMapMismatch: a class has no row, several rows of the same name, or a row of another class.
        """
        own = _index(names[: self.own] for names in self.names)
        # A class's own name precedes another's synonym: in ImageNet, a mouth organ is also called a harp.
        index = _index(self.names) | own
        heads = {name: self._head_names(index, name, label_map) for name in classes}
        asked = [(name, named) for name in classes for named in heads[name]]
        rows_of = {pair: self._rows(index, pair[1], mapped=pair[0] in label_map) for pair in asked}
        self._require([pair for pair in asked if not rows_of[pair]])
        rows = [tuple(_only_row(rows_of[name, named], named) for named in heads[name]) for name in classes]
        taken = [row for group in rows for row in group]
        for name, group in zip(classes, rows, strict=True):
            if any(taken.count(row) > 1 for row in group):
                raise ClassMapMismatch(
                    f"the class {name!r} shares a head class with another class; change the label map"
                )
        return Selection(tuple(rows))

    def _head_names(self, index: Mapping[str, set[int]], name: str, label_map: LabelMap) -> Sequence[str]:
        """What a class is called: its own name if the map is made for a classifier with other names."""
        mapped = label_map.get(name, [name])
        is_for_another = _key(name) in index and not any(
            self._rows(index, each, mapped=name in label_map) for each in mapped
        )
        return [name] if is_for_another else mapped

    def _rows(self, index: Mapping[str, set[int]], named: str, *, mapped: bool) -> set[int]:
        rows = index.get(_key(named), set())
        # A dataset's class may be called #1.
        numbered = _ROW.fullmatch(named) if mapped else None
        if not rows and numbered is not None and int(numbered[1]) < len(self):
            return {int(numbered[1])}
        return rows

    def _require(self, lacking: Sequence[tuple[str, str]]) -> None:
        """Raise if classes of the dataset have no row; a few are named."""
        if not lacking:
            return
        there = [name for row in self.names for name in row]
        names = [
            f"{named!r} for {name!r}{did_you_mean(named, there)}" for name, named in lacking[:MOST_NAMED]
        ]
        more = f" and {len(lacking) - MOST_NAMED} more" if len(lacking) > MOST_NAMED else ""
        raise ClassMapMismatch(
            f"the classifier has no class {', '.join(names)}{more}; name one of its classes in a label map "
            f"of the run (label_map=, --label-map FILE), or one of its rows, '#0' to '#{len(self) - 1}'"
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


def _only_row(rows: set[int], named: str) -> int:
    if len(rows) > 1:
        numbers = " and ".join(repr(f"#{row}") for row in sorted(rows))
        raise ClassMapMismatch(
            f"{named!r} matches {len(rows)} classes of the classifier; name its row in a label map: {numbers}"
        )
    return next(iter(rows))


@dataclass(frozen=True)
class Selection:
    """The rows of each dataset class."""

    rows: tuple[tuple[int, ...], ...]

    def __call__(self, head: Floats) -> Floats:
        """Sum the head's probabilities (C,) over each class's rows (n,)."""
        return np.array([head[list(group)].sum() for group in self.rows], dtype=np.float32)
