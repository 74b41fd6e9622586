"""Source images that are not independent: named by the dataset, equal, or nearly so by CLIP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.datasets import Source
from counterpose_core.contract.groups import Grouping
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.errors import InvalidRequest
from counterpose_core.images.near_duplicates import Pair, joined, near_pairs
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.clip import embed_dataset
from counterpose_gateway.steps.off_loop import off_loop

MOST_COMPARED = 5_000
"""Images that are embedded while the request waits: some ten seconds on a GPU."""

_DIGITS = 12


async def group_sources(
    create: StressTestCreate,
    sources: SourceTable,
    services: Services,
    *,
    known: Mapping[str, str] | None = None,
) -> tuple[SourceTable, Grouping | None]:
    """Return the sources, each with its group if it has one, and how the groups are known.

    The groups that the dataset names count, and images of one class with equal pixels; with
    ``near_duplicates`` also images of one class that CLIP finds nearly the same. Groups that share an image
    become one. ``known`` are the groups of an earlier run by source, which keep their names.

    Raises:
        InvalidRequest: there are too many images to compare.
        BackendError: the scorer is down.
    """
    alike: list[Pair] = []
    if create.near_duplicates is not None:
        alike = await _alike(create.near_duplicates, sources, services)
    # Of 100,000 sources it takes a second.
    return await off_loop(sources, _grouped, sources, known or {}, alike)


def _grouped(
    sources: SourceTable, before: Mapping[str, str], alike: Sequence[Pair]
) -> tuple[SourceTable, Grouping | None]:
    named = sources.groups >= 0
    copies = _copies(sources)
    known = [(number, before[one]) for number, one in _ids(sources) if one in before] if before else []
    units = sources.units()
    pairs = [*_equal((units[number], number) for number in np.flatnonzero(named).tolist())]
    pairs += copies.pairs
    pairs += _equal((name, number) for number, name in known)
    pairs += alike
    if not pairs and not named.any() and not known:
        # As most datasets are; nothing is made for each of a million images.
        return sources, None
    numbers = np.asarray(joined(len(sources), pairs), dtype=np.intp)
    groups = _names(sources, numbers, dict(known))
    grouped = sources.in_groups(groups)
    how = Counter[str](named=int(named.sum()))
    for number, one in _ids(sources):
        if not named[number] and one in groups:
            how["identical" if number in copies.members else "alike"] += 1
    return grouped, Grouping(groups=groups, **how)


def in_group(source: Source, group: str | None) -> Source:
    """Return the source in this group."""
    return source if source.group == group else source.model_copy(update={"group": group})


def _names(sources: SourceTable, numbers: NDArray[np.intp], before: Mapping[int, str]) -> dict[str, str]:
    """Return the group of each source that has one, by its id."""
    shared = np.bincount(numbers)[numbers] > 1
    shared |= sources.groups >= 0
    shared[list(before)] = True
    members = [
        _Member(
            number, sources.group(number), sources.group(number) or before.get(number), sources.id(number)
        )
        for number in np.flatnonzero(shared).tolist()
    ]
    names: dict[int, str] = {}
    for member in sorted(members, key=_named_first):
        names.setdefault(int(numbers[member.number]), member.name or f"alike-{member.id[:_DIGITS]}")
    return {member.id: names[int(numbers[member.number])] for member in members}


class _Member(NamedTuple):
    """A source of a group: the group that the dataset names, and that or the one of an earlier run."""

    number: int
    named: str | None
    name: str | None
    id: str


def _named_first(member: _Member) -> tuple[bool, bool, str, str]:
    return member.named is None, member.name is None, member.name or "", member.id


@dataclass(frozen=True)
class _Copies:
    """Images of one class with equal pixels: pairs, and all that have another."""

    pairs: Sequence[Pair]
    members: Set[int]


def _copies(sources: SourceTable) -> _Copies:
    order, repeats = sources.in_order_of_images()
    repeated = np.zeros(len(sources), dtype=bool)
    repeated[order[1:][repeats[1:]]] = repeated[order[:-1][repeats[1:]]] = True
    members = np.flatnonzero(repeated).tolist()
    found = [((sources.image(number), sources.label(number)), number) for number in members]
    counted = Counter(key for key, _ in found)
    return _Copies(_equal(found), {number for key, number in found if counted[key] > 1})


def _ids(sources: SourceTable) -> Iterator[tuple[int, str]]:
    return ((number, sources.id(number)) for number in range(len(sources)))


def _equal(keyed: Iterable[tuple[Hashable, int]]) -> list[Pair]:
    """Pair each number with the first of an equal key."""
    first: dict[Hashable, int] = {}
    return [(first[key], number) for key, number in keyed if first.setdefault(key, number) != number]


async def _alike(least: float, sources: SourceTable, services: Services) -> list[Pair]:
    if len(sources) > MOST_COMPARED:
        raise InvalidRequest(
            f"near-duplicates can be found among {MOST_COMPARED} images, not {len(sources)}; name the groups "
            "in the dataset, or set a limit",
            pointer="/near_duplicates",
        )
    shown = [sources.image(number) for number in range(len(sources))]
    images = list(dict.fromkeys(shown))
    found = await embed_dataset(images, None, services.scorer)
    pairs: list[Pair] = []
    labels = sources.own_labels()
    for label in dict.fromkeys(labels.tolist()):
        of_class = np.flatnonzero(labels == label).tolist()
        places = [number for number in of_class if shown[number] in found.features]
        if places:
            vectors = np.stack([found.features[shown[number]] for number in places])
            pairs += [(places[one], places[other]) for one, other in near_pairs(vectors, least)]
    return pairs
