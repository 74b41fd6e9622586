"""The records of an export, read once: spooled to disk, counted, and yielded again in order."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from counterpose_core.errors import DatasetEmpty
from counterpose_gateway.exports.records import SCORES, Record

COUNTED = ("class_name", "shift", "image_source", "model", "bundle", "verdict", "origin")
"""Fields of a record whose values an inventory counts."""


class Inventory:
    """The content of an export: its ``images``, the names of all ``scores`` and ``classifiers``, counts.

    ``paired`` says whether any image has a source image, ``labels`` are all classes that images have or that
    classifiers answer.

    Tables need their columns, and the progress its end, before the first image is written, and a million
    records are too many to hold. The records come back in order, except that the first with a number in
    a column leads if earlier ones have none: readers of JSON lines infer types from the first rows.
    """

    def __init__(self, records: Iterable[Record], spool: IO[bytes]) -> None:
        self.images = 0
        self.paired = False
        self.classifiers: tuple[str, ...] = ()
        self.labels: set[str] = set()
        self.counts: dict[str, Counter[str]] = {field: Counter() for field in COUNTED}
        self.classes_of: dict[str, set[str]] = {}
        names: set[str] = set()
        answering: set[str] = set()
        numbers: set[tuple[str, ...]] = set()
        self._leading: set[int] = set()
        for ordinal, record in enumerate(records):
            spool.write(record.model_dump_json().encode() + b"\n")
            names.update(record.scores)
            answering.update(record.answers)
            self._take_answers(record)
            if not _numbers(record) <= numbers:
                self._leading.add(ordinal)
                numbers |= _numbers(record)
            self._count(record)
        self.scores = tuple(sorted(names))
        self.classifiers = tuple(sorted(answering))
        self.shift_folders = folders(self.counts["shift"])
        self.class_folders = folders(self.counts["class_name"])
        self._spool = spool

    def _take_answers(self, record: Record) -> None:
        source = record.source
        self.paired = self.paired or source is not None
        before = {} if source is None else source.answers
        self.labels |= {
            record.class_name,
            *(each.label for each in (*record.answers.values(), *before.values())),
        }

    def _count(self, record: Record) -> None:
        self.images += 1
        self.classes_of.setdefault(record.shift, set()).add(record.class_name)
        for field, counter in self.counts.items():
            if (value := getattr(record, field)) is not None:
                counter[value] += 1

    def __iter__(self) -> Iterator[Record]:
        yield from self._read(leading=True)
        yield from self._read(leading=False)

    def _read(self, *, leading: bool) -> Iterator[Record]:
        self._spool.seek(0)
        for ordinal, line in enumerate(self._spool):
            if (ordinal in self._leading) == leading:
                yield Record.model_validate_json(line)


def _numbers(record: Record) -> set[tuple[str, ...]]:
    """The columns, by their paths, in which a record has a number."""
    scored: set[tuple[str, ...]] = {
        (SCORES, name) for name, value in record.scores.items() if value is not None
    }
    return scored if record.seed is None else {*scored, ("seed",)}


@contextmanager
def take_inventory(records: Iterable[Record], *, folder: Path) -> Iterator[Inventory]:
    """Read ``records``; until the inventory is closed, an unnamed copy of them takes space in ``folder``.

    Raises:
        DatasetEmpty: ``records`` is empty.
    """
    with TemporaryFile(dir=folder) as spool:
        inventory = Inventory(records, spool)
        if not inventory.images:
            raise DatasetEmpty(
                "there is nothing to export: no image passed; include the dropped images or wait for the run"
            )
        yield inventory


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
    reduced to its words and made unique by its digest; the folder of a plain name never contains ``~``.
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
