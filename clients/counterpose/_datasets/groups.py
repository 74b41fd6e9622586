"""Groups of images that are not independent."""

from __future__ import annotations

from collections.abc import Iterable

from counterpose._datasets.uploads import LabelledImage
from counterpose_core.errors import InvalidRequest


def require_one_class(images: Iterable[LabelledImage]) -> None:
    """Refuse a group whose images are of several classes, before any of them is sent.

    Raises:
        InvalidRequest: a group spans classes; both are named.
    """
    class_of: dict[str, str] = {}
    for image in images:
        if image.group is not None and class_of.setdefault(image.group, image.label) != image.label:
            raise InvalidRequest(
                f"the group {image.group!r} has images of the classes {class_of[image.group]!r} and "
                f"{image.label!r}; give each class groups of its own"
            )
