"""Retrieved images that are not independent: found twice, nearly equal, or of one group of their dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from faultline_core.images.near_duplicates import Pair, joined
from faultline_core.types import BlobRef


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A retrieved image of a class, and the image that its search found nearly equal to it, if any."""

    label: str
    image: BlobRef
    alike: BlobRef | None


def retrieved_groups(found: Sequence[Retrieved], named: Mapping[BlobRef, str]) -> list[str | None]:
    """Return the group of each image, None where it is the only one of its class in its group.

    An image that several conditions of a class have is one image. ``named`` are the groups of the dataset.
    Groups that share an image are one.
    """
    first: dict[Hashable, int] = {}
    pairs: list[Pair] = []
    for index, each in enumerate(found):
        keys: list[Hashable] = [each.image, each.alike or each.image]
        if each.image in named:
            keys.append(("named", named[each.image]))
        pairs += [(first.setdefault(key, index), index) for key in keys]
    numbers = joined(len(found), pairs)
    sizes = Counter((each.label, number) for each, number in zip(found, numbers, strict=True))
    return [
        f"retrieved/{number}" if sizes[each.label, number] > 1 else None
        for each, number in zip(found, numbers, strict=True)
    ]
