"""How a stress test chose, grouped and divided its sources while it read them all: what tables must equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from counterpose_core.contract.datasets import Source
from counterpose_core.contract.groups import Grouping
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.images.near_duplicates import joined
from counterpose_gateway.methods.stress_test.division import MOST_FRESH, _n_kept
from counterpose_gateway.runs.seeds import derive_seed


def chosen_of(sources: Sequence[Source], classes: Sequence[str], limit: int | None) -> list[Source]:
    """Take sources evenly over the classes."""
    by_class: dict[str, dict[str, Source]] = {name: {} for name in classes}
    for source in sorted(sources, key=lambda source: source.id):
        by_class[source.label][source.id] = source
    rounds = zip_longest(*(listed.values() for listed in by_class.values()))
    return [source for source in chain.from_iterable(rounds) if source is not None][:limit]


def grouped_of(sources: Sequence[Source], before: Mapping[str, str]) -> tuple[list[Source], Grouping | None]:
    """Put equal images and those of one named group together."""
    pairs = [*_equal((source.label, source.group) if source.group else None for source in sources)]
    pairs += _equal((source.label, source.image) for source in sources)
    pairs += _equal(before.get(source.id) for source in sources)
    numbers = joined(len(sources), pairs)
    sizes = Counter(numbers)
    names: dict[int, str] = {}
    named = [source.group or before.get(source.id) for source in sources]
    for number, name, source in sorted(zip(numbers, named, sources, strict=True), key=_named_first):
        if name is not None or sizes[number] > 1:
            names.setdefault(number, name or f"alike-{source.id[:12]}")
    grouped = [
        source.model_copy(update={"group": names.get(number)})
        for number, source in zip(numbers, sources, strict=True)
    ]
    return grouped, _grouping(sources, grouped)


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


def _equal(keys: Iterable[Hashable | None]) -> list[tuple[int, int]]:
    first: dict[Hashable, int] = {}
    return [
        (first[key], index)
        for index, key in enumerate(keys)
        if key is not None and first.setdefault(key, index) != index
    ]


def divided_of(
    create: StressTestCreate, sources: Sequence[Source], *, redraws: bool
) -> tuple[list[str], list[str]]:
    """Return the ids that the screen gets and the fresh ones, if enough are kept for a second stage."""
    drawn: list[Source] = []
    for units in _by_class(sources).values():
        number = _n_kept(create, len(units), redraws=redraws)
        in_order = sorted(units, key=lambda unit: derive_seed(create.seed, unit, "fresh"))
        drawn += [source for unit in in_order[:number] for source in units[unit]]
    kept = {source.id for source in drawn}
    taken: set[str] = set()
    for units in _by_class([source for source in sources if source.id in kept]).values():
        turns = zip_longest(*units.values())
        in_turn = [source.id for turn in turns for source in turn if source is not None]
        taken.update(in_turn[:MOST_FRESH])
    screened = [source.id for source in sources if source.id not in kept]
    return screened, [source.id for source in sources if source.id in taken]


def _by_class(sources: Iterable[Source]) -> dict[str, dict[str, list[Source]]]:
    classes: dict[str, dict[str, list[Source]]] = {}
    for source in sources:
        classes.setdefault(source.label, {}).setdefault(source.group or source.id, []).append(source)
    return classes
