"""The pairs of a regression set: the same source images and counterfactuals for candidate and incumbent."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from counterpose_core.blobs import digest
from counterpose_core.types import BlobRef


@dataclass(frozen=True, order=True)
class FrozenPair:
    """A source image and its counterfactual; ``source`` and ``image`` are references in the store or recipes.

    ``change`` names what differs: an edit type, a change of words or a shift. ``unit`` is the source image,
    or the group of sources that are not independent, such as frames of one video: what an interval counts.
    ``labels`` are further labels of the source.
    """

    change: str
    label: str
    unit: str
    source: str
    image: str
    labels: tuple[str, ...] = ()


def frozen(pairs: Iterable[FrozenPair]) -> list[FrozenPair]:
    """Return each pair once, in an order that depends on nothing but the pairs."""
    return sorted(set(pairs))


def digest_of(pairs: Sequence[FrozenPair]) -> BlobRef:
    """Return the SHA-256 of the pairs as JSON: equal for equal sets, whoever reads them and when."""
    # Without further labels, which few have: digests of before stay.
    rows = [astuple(pair)[: None if pair.labels else -1] for pair in frozen(pairs)]
    return digest(json.dumps(rows, ensure_ascii=True, separators=(",", ":")).encode())


def units_by_change(pairs: Iterable[FrozenPair]) -> dict[str, int]:
    """Return the number of units of each change, most first."""
    units: defaultdict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        units[pair.change].add(pair.unit)
    return dict(Counter({change: len(found) for change, found in units.items()}).most_common())


def units_by_class(seen: Iterable[tuple[str, str, str]]) -> dict[str | None, dict[str, int]]:
    """Return the number of units of every class under every change, also where it is 0.

    ``seen``: change, label and unit of each pair. The change None stands for the source images themselves.
    """
    units: defaultdict[tuple[str | None, str], set[str]] = defaultdict(set)
    for change, label, unit in seen:
        for each in (change, None):
            units[each, label].add(unit)
    changes, labels = dict.fromkeys(change for change, _ in units), sorted({label for _, label in units})
    return {change: {label: len(units.get((change, label), ())) for label in labels} for change in changes}
