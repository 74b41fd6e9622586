"""Folders named after classes and shifts: safe on every file system, and one per name."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

LONGEST = 60
"""Characters of a name that its folder may take: two such folders and a file name fit a tar header."""

# Hugging Face's loaders take each of these words in a path for a split (`datasets.data_files`).
_SPLITS = frozenset({
    "train", "training", "validation", "valid", "dev", "val", "test", "testing", "eval", "evaluation",
})  # fmt: skip
# Windows opens a device for each of these, whatever follows the dot.
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
)
_PLAIN = re.compile(r"[a-z0-9]+(?:[ -][a-z0-9]+)*")
_WORD = re.compile(r"[a-z]+|[0-9]+")
_DIGEST_DIGITS = 8


def folders(names: Iterable[str]) -> dict[str, str]:
    """Map each name to its folder, the same in every export with the name.

    A plain name, lower-case words of ASCII letters and digits, gets ``_`` for its spaces. Any other is
    reduced to its words and made unique by its digest: no plain name's folder contains ``~``.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        folder = name.replace(" ", "_") if _is_plain(name) else _digested(name, taken)
        found[name] = folder
        taken.add(folder)
    return found


def _is_plain(name: str) -> bool:
    words = set(_WORD.findall(name))
    return (
        len(name) <= LONGEST
        and _PLAIN.fullmatch(name) is not None
        and not words & _SPLITS
        and name not in _DEVICES
    )


def _digested(name: str, taken: set[str]) -> str:
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    # Joined by a character that no loader takes for the end of a word: "train~station" names no split.
    words = "~".join(_WORD.findall(letters))[:LONGEST].rstrip("~") or "name"
    digest = hashlib.sha256(name.encode()).hexdigest()
    lengths = range(_DIGEST_DIGITS, len(digest) + 1)
    return next(folder for length in lengths if (folder := f"{words}~{digest[:length]}") not in taken)
