"""The classes of a dataset object by number: the order in which its labels count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from typing import Any

from counterpose_core.errors import InvalidRequest

_REMEDY = "pass classes=[...], the name of each class in the order of the numbers"


def own_classes(source: Any) -> list[str] | None:
    """Return the classes of a dataset such as torchvision's; None if neither it nor what it wraps has any.

    A `Subset` has the classes of its dataset, and a `ConcatDataset` has those that all of its datasets share.

    Raises:
        InvalidRequest: they are no list of names, two are called the same, or joined datasets or
            ``class_to_idx`` number them in another way.
    """
    classes = class_list(getattr(source, "classes", None))
    if classes is None:
        return _shared_classes(source)
    if twice := [name for name, times in Counter(classes).items() if times > 1]:
        # Merged, two classes would count as one that a classifier answers by either row.
        raise InvalidRequest(f"two classes are called {twice[0]!r}: {_REMEDY}")
    numbers = getattr(source, "class_to_idx", None)
    for number, name in enumerate(classes):
        if isinstance(numbers, Mapping) and numbers.get(name, number) != number:
            raise InvalidRequest(
                f"class_to_idx numbers {name!r} as {numbers[name]}, but in classes it is {number}: {_REMEDY}"
            )
    return classes


def _shared_classes(source: Any) -> list[str] | None:
    # By their types: another wrapper may number the labels anew.
    types = {each.__name__ for each in type(source).__mro__}
    if "Subset" in types:
        return own_classes(source.dataset)
    if "ConcatDataset" not in types:
        return None
    first, *others = [own_classes(each) for each in source.datasets]
    if any(other != first for other in others):
        raise InvalidRequest(f"the joined datasets have different classes: {_REMEDY}")
    return first


def class_list(classes: Any) -> list[str] | None:
    """Return the names of classes as a list by number; None stays None.

    Args:
        classes: names in order, or a mapping between names and numbers from 0, in either direction.

    Raises:
        InvalidRequest: they are no names, or have no order.
    """
    if classes is None:
        return None
    if isinstance(classes, Mapping):
        pairs = [(one, other) if isinstance(other, str) else (other, one) for one, other in classes.items()]
        by_number = dict(pairs)
        if by_number.keys() != set(range(len(classes))):
            raise InvalidRequest(f"the classes are numbered, but not from 0 on: {_REMEDY}")
        classes = [by_number[number] for number in range(len(by_number))]
    if isinstance(classes, (str, bytes, Set)) or not hasattr(classes, "__len__"):
        raise InvalidRequest(f"the classes are a {type(classes).__name__}, not a list of names: {_REMEDY}")
    for name in classes:
        if not isinstance(name, str):
            raise InvalidRequest(f"the classes are {type(name).__name__}s, such as {name!r}: {_REMEDY}")
    return [str(name) for name in classes]
