"""Derives the core's hierarchy of ImageNet-1k's classes from WordNet's nouns.

    python -m evaluation.word_lists.imagenet_hierarchy FOLDER

FOLDER holds ``data.noun`` of WordNet 3.0, such as ``/usr/share/wordnet`` of Debian's ``wordnet-base``.
Which of its nouns are ImageNet-1k's classes is in timm.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path

from counterpose_core.text.imagenet_hierarchy import FILE

_IDS = "data/_info/imagenet_synsets.txt"
_HYPERNYMS = ("@", "@i")


@dataclass(frozen=True)
class Noun:
    """A set of synonyms, and the id of its first hypernym; the root has none."""

    id: str
    names: tuple[str, ...]
    parent: str | None


def derive(folder: Path, ids: Sequence[str]) -> list[str]:
    """Return one line for each class and for everything above one: id, parent's id, names.

    Classes come first, in ImageNet-1k's order. Of several hypernyms, the first one counts.

    Raises:
        ValueError: a class is no noun of these files.
    """
    nouns = {each.id: each for each in _nouns(folder / "data.noun")}
    missing = [each for each in ids if each not in nouns]
    if missing:
        raise ValueError(f"{missing[0]} is no noun of {folder}; these are not the files of WordNet 3.0")
    above: dict[str, Noun] = {}
    for each in ids:
        parent = nouns[each].parent
        while parent is not None and parent not in above:
            above[parent] = nouns[parent]
            parent = nouns[parent].parent
    listed = [nouns[each] for each in ids] + [above[each] for each in sorted(set(above) - set(ids))]
    return ["\t".join((each.id, each.parent or "", "|".join(each.names))) for each in listed]


def _nouns(path: Path) -> Iterator[Noun]:
    for line in path.read_text("ascii").splitlines():
        if line.startswith("  "):
            continue
        fields = line.partition(" | ")[0].split()
        words = int(fields[3], 16)
        names = tuple(fields[4 + 2 * place].replace("_", " ") for place in range(words))
        pointers = fields[5 + 2 * words :]
        places = range(0, 4 * int(fields[4 + 2 * words]), 4)
        parents = [pointers[at + 1] for at in places if pointers[at] in _HYPERNYMS]
        yield Noun(f"n{fields[0]}", names, f"n{parents[0]}" if parents else None)


def licence(folder: Path) -> list[str]:
    """Return WordNet's licence, which has to appear on every copy of its data."""
    head = (line for line in (folder / "data.noun").read_text("ascii").splitlines() if line.startswith("  "))
    return [line.strip().partition(" ")[2].strip() for line in head]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the hierarchy into the core."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="WordNet's files")
    folder = parser.parse_args(arguments).folder
    # Read as a file: to import timm takes seconds, and a torch that works.
    (listed,) = (each for each in files("timm") or () if str(each).endswith(_IDS))
    ids = listed.read_text("ascii").split()
    head = [f"# {line}".rstrip() for line in licence(folder)]
    text = "\n".join([*head, *derive(folder, ids)]) + "\n"
    # Without a time, so that the same nouns are the same bytes.
    FILE.write_bytes(gzip.compress(text.encode("ascii"), mtime=0))


if __name__ == "__main__":
    main()
