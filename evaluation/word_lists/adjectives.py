"""Derives the core's list of adjectives from WordNet's files.

    python -m evaluation.word_lists.adjectives FOLDER

FOLDER holds ``index.adj``, ``index.noun``, ``index.verb``, ``index.adv`` and ``cntlist.rev`` of WordNet 3.0,
such as ``/usr/share/wordnet`` of Debian's package ``wordnet-base``.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from counterpose_core.text.adjectives import LIST

LEAST_SHARE = 0.25
"""Share of a word's tagged uses as an adjective: "orange" is one (7 of 15), "fly" and "spread" are none."""

_PARTS = {"adj": "a", "noun": "n", "verb": "v", "adv": "r"}
_KINDS = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
"""WordNet's numbers of parts of speech in sense keys; 5 are adjectives near the meaning of another."""
_PLAIN = re.compile(r"[a-z]+(?:-[a-z]+)*")


def derive(folder: Path) -> list[str]:
    """Return the adjectives of WordNet that are one plain word, sorted."""
    listed = {kind: _lemmas(folder / f"index.{part}") for part, kind in _PARTS.items()}
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for line in (folder / "cntlist.rev").read_text("ascii").splitlines():
        key, _, number = line.split()
        word, _, sense = key.partition("%")
        used[word][_KINDS[sense[0]]] += int(number)
    found = []
    for word in sorted(filter(_PLAIN.fullmatch, listed["a"])):
        tagged = used[word]
        often = tagged["a"] >= LEAST_SHARE * tagged.total() and tagged["a"] > 0
        # No use was tagged: an adjective if it is nothing else.
        only = not tagged.total() and not any(word in listed[kind] for kind in "nvr")
        if often or only:
            found.append(word)
    return found


def _lemmas(path: Path) -> set[str]:
    return {line.partition(" ")[0] for line in path.read_text("ascii").splitlines() if line[0] != " "}


def licence(folder: Path) -> list[str]:
    """Return WordNet's licence, which has to appear on every copy of its data."""
    head = (line for line in (folder / "index.adj").read_text("ascii").splitlines() if line.startswith("  "))
    return [line.strip().partition(" ")[2].strip() for line in head]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the list into the core."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="WordNet's files")
    folder = parser.parse_args(arguments).folder
    head = [f"# {line}".rstrip() for line in licence(folder)]
    text = "\n".join([*head, *derive(folder)]) + "\n"
    # Without a time, so that the same words are the same bytes.
    LIST.write_bytes(gzip.compress(text.encode("ascii"), mtime=0))


if __name__ == "__main__":
    main()
