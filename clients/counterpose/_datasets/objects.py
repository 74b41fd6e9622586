"""Labelled images of the caller's own program: datasets of torchvision or Hugging Face, or arrays.

A dataset is recognised by its methods and attributes: neither library is imported.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from counterpose._datasets.object_classes import class_list, own_classes
from counterpose._datasets.pixels import encoded
from counterpose._datasets.uploads import LabelledImage
from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.text.folder_names import folder_classes

_LABELS, _IMAGES = ("label", "labels"), ("image", "img")
"""Names of the columns of a Hugging Face dataset whose features do not tell them."""
_GROUP = "group"


@dataclass(frozen=True)
class Row(LabelledImage):
    """A row of a dataset object; ``problem`` is why it cannot be sent."""

    number: int
    label: str
    image: object
    about: str
    problem: InvalidRequest | None = None
    caption: str | None = None
    group: str | None = None

    @property
    def filename(self) -> str:
        """The number of the row."""
        return f"{self.number:06d}.png"

    def content(self) -> bytes:
        """The image as a file's bytes.

        Raises:
            InvalidRequest: it is no image, or its label names no class.
        """
        if self.problem is not None:
            raise self.problem
        try:
            return encoded(self.image, self.about)
        except InvalidRequest:
            raise
        # A file that is cut off raises only when its pixels are read.
        except Exception as error:
            raise _unreadable(self.about, error) from error


@dataclass(frozen=True)
class DatasetObject:
    """A dataset object as rows, each read when it is sent.

    Raises:
        DatasetEmpty: it has no rows.
        InvalidRequest: it is no dataset, its classes are no list of names, or its first row cannot be sent.
    """

    about: str
    length: int
    read: Callable[[int], tuple[Any, Any]]
    classes: Sequence[str] | None
    groups: Sequence[Any] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    """What classes are called that have another name, by the object's own."""

    @property
    def dataset_classes(self) -> list[str] | None:
        """The classes by number, which a classifier without class names answers by; None without a list."""
        if self.classes is None:
            return None
        # Two of the object's classes may be given one name.
        return list(dict.fromkeys(self.names.get(name, name) for name in self.classes))

    def __post_init__(self) -> None:
        if not self.length:
            raise DatasetEmpty(f"the {self.about} has no rows")
        if self.groups is not None and len(self.groups) != self.length:
            raise InvalidRequest(
                f"there are {self.length} rows, but {len(self.groups)} groups: pass one for each, None for "
                "an image that stands alone"
            )
        # What is wrong with the first row is usually wrong with all: nothing has been sent yet.
        self._row(0).content()

    def __iter__(self) -> Iterator[Row]:
        return map(self._row, range(self.length))

    def _row(self, number: int) -> Row:
        about = f"row {number} of the {self.about}"
        try:
            image, label = self.read(number)
            group = None if self.groups is None else self.groups[number]
            named = None if group is None or group == "" else str(group)
            own = self._class_name(label, about)
            return Row(number, self.names.get(own, own), image, about, group=named)
        except InvalidRequest as error:
            return Row(number, "", None, about, error)
        # Everything: whatever a dataset raises, its other rows can be sent.
        except Exception as error:
            return Row(number, "", None, about, _unreadable(about, error))

    def _class_name(self, label: Any, about: str) -> str:
        if isinstance(label, str):
            if self.classes is not None and label not in self.classes:
                raise InvalidRequest(f"{about} has the label {label!r}, which is none of its classes")
            return label
        try:
            number = operator.index(label)
        except TypeError:
            raise InvalidRequest(
                f"{about} has the label {label!r}: expected a class's name or number"
            ) from None
        if self.classes is None:
            raise InvalidRequest(
                f"{about} has the label {number}, but no class has a name: pass classes=[...]"
            )
        if not 0 <= number < len(self.classes):
            raise InvalidRequest(f"{about} has the label {number}, but there are {len(self.classes)} classes")
        return self.classes[number]


def dataset_object(
    source: Any,
    classes: Sequence[str] | None,
    groups: Sequence[Any] | None = None,
    names: Mapping[str, str] | None = None,
) -> DatasetObject:
    """Read a dataset object.

    Args:
        source: a sequence of (image, label); a Hugging Face dataset with an image and a label column; or a
            tuple (images, labels). An image is a PIL image, an array (height, width, 3) or a tensor
            (3, height, width), of uint8 or of floats from 0 to 1, or a file's bytes.
        classes: the class names by number; default: the dataset's own.
        groups: the group of each row, a name or a number; default: a column ``group`` of a Hugging Face
            dataset.
        names: what to call the classes, by the object's own names. A class of the object's own that is called
            by a WordNet id is called as ImageNet-1k does; ``classes`` are taken as they are.
    """
    found = _read_object(source, class_list(classes), groups)
    called = (
        dict(names or {})
        if classes is not None or not found.classes
        else folder_classes(found.classes, names)
    )
    return replace(found, names={each: name for each, name in called.items() if each != name})


def _read_object(source: Any, classes: Sequence[str] | None, groups: Sequence[Any] | None) -> DatasetObject:
    about = type(source).__name__
    if isinstance(source, tuple) and len(source) == 2:
        images, labels = source
        if len(images) != len(labels):
            raise InvalidRequest(f"there are {len(images)} images, but {len(labels)} labels")
        return DatasetObject("arrays", len(images), lambda at: (images[at], labels[at]), classes, groups)
    if hasattr(source, "column_names"):
        return _of_columns(source, classes, about, groups)
    if hasattr(source, "keys"):
        raise InvalidRequest(f"a {about} is no dataset: pass one of its splits, such as source['test']")
    if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")) or isinstance(source, bytes):
        raise InvalidRequest(
            f"a {about} is no dataset: expected a folder, a sequence of (image, label), a dataset with an "
            "image and a label column, or (images, labels)"
        )
    known = own_classes(source) if classes is None else classes
    return DatasetObject(about, len(source), lambda at: _pair(source[at]), known, groups)


def _unreadable(about: str, error: Exception) -> InvalidRequest:
    return InvalidRequest(f"{about} cannot be read: {type(error).__name__}: {error}")


def _pair(row: Any) -> tuple[Any, Any]:
    if not isinstance(row, (tuple, list)):
        raise TypeError(f"expected (image, label), not {type(row).__name__}")
    if len(row) != 2:
        raise TypeError(f"expected (image, label), not {len(row)} values")
    return row[0], row[1]


def _of_columns(
    source: Any, classes: Sequence[str] | None, about: str, groups: Sequence[Any] | None
) -> DatasetObject:
    if isinstance(source.column_names, dict):
        raise InvalidRequest(
            f"a {about} holds several datasets: pass one of its splits, such as source['test']"
        )
    if not hasattr(source, "__len__"):
        raise InvalidRequest(f"a {about} has no length: pass a dataset that is not streamed")
    features = dict(getattr(source, "features", None) or {})
    named = [name for name, feature in features.items() if getattr(feature, "names", None)]
    label = _column(source, about, "label", [*named, *_LABELS])
    pictured = [name for name, feature in features.items() if type(feature).__name__ == "Image"]
    image = _column(source, about, "image", [*pictured, *_IMAGES])
    known = getattr(features.get(label), "names", None) if classes is None else classes

    def read(at: int) -> tuple[Any, Any]:
        row = source[at]
        return row[image], row[label]

    if groups is None and _GROUP in source.column_names:
        groups = list(source[_GROUP])
    return DatasetObject(about, len(source), read, known, groups)


def _column(source: Any, about: str, what: str, wanted: Sequence[str]) -> str:
    for name in wanted:
        if name in source.column_names:
            return name
    raise InvalidRequest(f"the {about} has no {what} column: it has {', '.join(source.column_names)}")
