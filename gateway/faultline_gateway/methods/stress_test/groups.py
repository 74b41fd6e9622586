"""Source images that are not independent: named by the dataset, equal, or nearly so by CLIP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from faultline_core.contract.datasets import Source
from faultline_core.contract.groups import Grouping
from faultline_core.contract.stress_tests import StressTestCreate
from faultline_core.errors import InvalidRequest
from faultline_core.images.near_duplicates import Pair, joined, near_pairs
from faultline_gateway.runs.clip import embed_dataset
from faultline_gateway.runs.off_loop import off_loop
from faultline_gateway.services.ports import Services

MOST_COMPARED = 5_000
"""Images that are embedded while the request waits: some ten seconds on a GPU."""

_DIGITS = 12


async def group_sources(
    create: StressTestCreate,
    sources: Sequence[Source],
    services: Services,
    *,
    known: Mapping[str, str] | None = None,
) -> tuple[list[Source], Grouping | None]:
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
    sources: Sequence[Source], before: Mapping[str, str], alike: Sequence[Pair]
) -> tuple[list[Source], Grouping | None]:
    pairs = [*_equal((source.label, source.group) if source.group else None for source in sources)]
    pairs += _equal((source.label, source.image) for source in sources)
    pairs += _equal(before.get(source.id) for source in sources)
    pairs += alike
    numbers = joined(len(sources), pairs)
    sizes = Counter(numbers)
    names: dict[int, str] = {}
    named = [source.group or before.get(source.id) for source in sources]
    for number, name, source in sorted(zip(numbers, named, sources, strict=True), key=_named_first):
        if name is not None or sizes[number] > 1:
            names.setdefault(number, name or f"alike-{source.id[:_DIGITS]}")
    grouped = [in_group(source, names.get(number)) for number, source in zip(numbers, sources, strict=True)]
    return grouped, _grouping(sources, grouped)


def in_group(source: Source, group: str | None) -> Source:
    """Return the source in this group; the source itself if it is there, as there may be 100,000 of them."""
    return source if source.group == group else source.model_copy(update={"group": group})


def _named_first(numbered: tuple[int, str | None, Source]) -> tuple[bool, bool, str, str]:
    _, name, source = numbered
    return source.group is None, name is None, name or "", source.id


def _grouping(sources: Sequence[Source], grouped: Sequence[Source]) -> Grouping | None:
    groups = {source.id: source.group for source in grouped if source.group is not None}
    if not groups:
        return None
    copies = Counter((source.label, source.image) for source in sources)
    how: Counter[str] = Counter()
    for source in sources:
        if source.group is not None:
            how["named"] += 1
        elif copies[source.label, source.image] > 1:
            how["identical"] += 1
        elif source.id in groups:
            how["alike"] += 1
    return Grouping(groups=groups, **how)


def _equal(keys: Iterable[Hashable | None]) -> list[Pair]:
    """Pair each index with the first of an equal key."""
    first: dict[Hashable, int] = {}
    return [
        (first[key], index)
        for index, key in enumerate(keys)
        if key is not None and first.setdefault(key, index) != index
    ]


async def _alike(least: float, sources: Sequence[Source], services: Services) -> list[Pair]:
    if len(sources) > MOST_COMPARED:
        raise InvalidRequest(
            f"near-duplicates can be found among {MOST_COMPARED} images, not {len(sources)}; name the groups "
            "in the dataset, or set a limit",
            pointer="/near_duplicates",
        )
    images = list(dict.fromkeys(source.image for source in sources))
    found = await embed_dataset(images, None, services.scorer)
    pairs: list[Pair] = []
    for label in dict.fromkeys(source.label for source in sources):
        places = [
            index
            for index, source in enumerate(sources)
            if source.label == label and source.image in found.features
        ]
        if places:
            vectors = np.stack([found.features[sources[index].image] for index in places])
            pairs += [(places[one], places[other]) for one, other in near_pairs(vectors, least)]
    return pairs
