"""ImageNet-1k's classes in WordNet 3.0 (`evaluation.word_lists.imagenet_hierarchy` derives the file)."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("imagenet_hierarchy.txt.gz")
CLASSES = 1000


@dataclass(frozen=True)
class Hierarchy:
    """ImageNet-1k's classes and everything above them.

    Attributes:
        parents: the id of what is next above, by id; the root has none.
        first: the first name of each, which several may have.
        names: a name of each that no other one has.
        meant: the class that a name means, by name in lower case.
        ambiguous: names of several classes, of which none has it as its first.
        called: a name of each class that means no other class.
    """

    parents: Mapping[str, str]
    first: Mapping[str, str]
    names: Mapping[str, str]
    meant: Mapping[str, str]
    ambiguous: frozenset[str]
    called: Mapping[str, str]


@cache
def hierarchy() -> Hierarchy:
    """Read the file."""
    lines = gzip.decompress(FILE.read_bytes()).decode("ascii").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    synonyms = {own: known.split("|") for own, _, known in rows}
    first, any_of = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for own, _, _ in rows[:CLASSES]:
        known = synonyms[own]
        for name in (known[0], ", ".join(known), own):
            first[name.casefold()].add(own)
        for name in known:
            any_of[name.casefold()].add(own)
    # "crayfish" is one class's first name and another one's fifth; "crane" is two classes' first.
    alone = {name: own for name, own in any_of.items() if len(own) == 1}
    alone |= {name: own for name, own in first.items() if len(own) == 1}
    meant = {name: next(iter(own)) for name, own in alone.items()}
    called = _called(rows, synonyms, meant)
    meant |= {name.casefold(): own for own, name in called.items()}
    return Hierarchy(
        {own: parent for own, parent, _ in rows if parent},
        {own: known[0] for own, known in synonyms.items()},
        _distinct(synonyms),
        meant,
        frozenset(any_of) - frozenset(meant),
        called,
    )


def _called(
    rows: Sequence[Sequence[str]], synonyms: Mapping[str, list[str]], meant: Mapping[str, str]
) -> dict[str, str]:
    """The first name that means each class, or its first one with what is above it."""
    called = dict[str, str]()
    for own, above, _ in rows[:CLASSES]:
        telling = [name for name in synonyms[own] if meant.get(name.casefold()) == own]
        called[own] = telling[0] if telling else f"{synonyms[own][0]} ({synonyms[above][0]})"
    return called


def _distinct(synonyms: Mapping[str, list[str]]) -> dict[str, str]:
    """The first name of each, with its others or its id where another one has the same."""
    often = Counter(known[0] for known in synonyms.values())
    names = {own: known[0] if often[known[0]] == 1 else ", ".join(known) for own, known in synonyms.items()}
    often = Counter(names.values())
    return {own: name if often[name] == 1 else f"{name} ({own})" for own, name in names.items()}


def class_names() -> Mapping[str, str]:
    """Return a name for each class of ImageNet-1k, by WordNet id, that means no other class.

    It is WordNet's first such name: "gong", which a chime is called only after other names. Where there is
    none, what is above the class follows in brackets: "crane (wading bird)" and "crane (lifting device)".
    """
    return hierarchy().called


def class_key(name: str) -> str:
    """Return what is equal for all names of one class: its WordNet id in ImageNet-1k, else the name itself.

    Case does not count.
    """
    return hierarchy().meant.get(name.casefold(), name.casefold())


def are_imagenet(classes: Iterable[str]) -> bool:
    """Return whether each of these names is one of ImageNet-1k: a synonym, a WordNet id, or all synonyms."""
    found = hierarchy()
    return all(name.casefold() in found.meant or name.casefold() in found.ambiguous for name in classes)


def imagenet_parents(classes: Iterable[str], levels: int = 1, *, distinct: bool = True) -> dict[str, str]:
    """Return what each class is so many levels above it, such as "dipterous insect" for "fly".

    Of two hypernyms, the first one counts. Left out are names of no class of ImageNet-1k, names of several
    ("crane" is a bird and a machine), and classes that have nothing above them. One with fewer levels above
    it is what is highest.

    Args:
        classes: the names.
        levels: at least 1.
        distinct: call two parents differently that share their first name; False for prompts.
    """
    found, parents = hierarchy(), dict[str, str]()
    for name in classes:
        own = found.meant.get(name.casefold())
        above = own
        for _ in range(levels):
            above = None if above is None else found.parents.get(above, above)
        if above is not None and above != own:
            parents[name] = (found.names if distinct else found.first)[above]
    return parents
