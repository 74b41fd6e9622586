"""The audit of a run: its invariants, recomputed from what the gateway answers and what the store holds."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from counterpose_core.content_address import blob_name
from counterpose_core.contract.runs import Run, RunEvent, RunItem
from counterpose_core.errors import ArtifactCorrupt, ArtifactMissing, BadBackendOutput, InvalidRequest
from counterpose_core.images.file_structure import SIGNATURE, chunks
from counterpose_core.types import FINAL_ITEM_STATES, FINAL_RUN_STATES, RunState

Invariant = Literal["accounting", "exactly-once", "artifact-before-row", "marked"]

_PACKED = (b"RIFF", SIGNATURE)
"""How files begin that are kept in place of raw pixels; the gateway checks these when it reads them."""
_SYNTHETIC = b"synthetic\0true"
_TERMS = (b"compositeWithTrainedAlgorithmicMedia", b"trainedAlgorithmicMedia")


class Violation(BaseModel, frozen=True):
    """An invariant that a run does not keep, and in what."""

    invariant: Invariant
    what: str


class Audit(BaseModel, frozen=True):
    """What an audit looked at, and what it found.

    ``images``: how many different images the run's results name; ``stored``: how many of them were compared
    with their digests in the store's folder, or None if no folder was given.
    """

    run: str
    state: RunState
    events: int
    items: int
    images: int
    stored: int | None
    violations: list[Violation]

    @property
    def passed(self) -> bool:
        """Whether every invariant holds."""
        return not self.violations


class Auditing:
    """An audit while it reads; the caller sends the calls.

    Raises:
        InvalidRequest: the run has not ended, or ``store`` is not the folder of a store.
    """

    def __init__(self, run: Run, store: str | Path | None) -> None:
        if run.state not in FINAL_RUN_STATES:
            raise InvalidRequest(f"run {run.id!r} is {run.state}; wait until it has ended, then audit it")
        self._run = run
        self._store = None if store is None else _blob_folder(Path(store))
        self._found: list[Violation] = []
        self._events = 0
        self._last: RunEvent | None = None
        self._items: dict[str, RunItem[Any]] = {}
        self._made: set[str] = set()
        self._listed = 0
        self._results = 0
        self._stored = 0

    @contextmanager
    def reading(self, invariant: Invariant) -> Iterator[None]:
        """Read something inside; an answer that contradicts itself is a violation."""
        try:
            yield
        except BadBackendOutput as error:
            self._violated(invariant, error.detail)

    def event(self, event: RunEvent) -> None:
        """Take the next event, from the first one on."""
        # The contract refuses counts that do not add up, so they are read as they are.
        self._events += 1
        self._last = event

    def item(self, item: RunItem[Any]) -> None:
        """Take the next item of the list."""
        if item.id in self._items:
            self._violated("exactly-once", f"item {item.id} is listed twice")
        if item.ordinal != self._listed:
            self._violated("exactly-once", f"item {item.id} has the place {item.ordinal}, not {self._listed}")
        if item.state not in FINAL_ITEM_STATES:
            self._violated("accounting", f"item {item.id} is {item.state} though the run has ended")
        if item.state == "done" and item.result is None:
            self._violated("exactly-once", f"item {item.id} is done without a result")
        # Captions, photographs and real images are results that show the image they start from.
        if (ref := _image(item)) is not None and ref != item.source_image:
            self._made.add(ref)
        self._items[item.id] = item
        self._listed += 1

    def result(self, item: RunItem[Any]) -> None:
        """Take the next line of the results, after all items."""
        self._results += 1
        if self._items.get(item.id) != item:
            self._violated("exactly-once", f"item {item.id} is another one in the results than in the list")

    def images(self) -> Iterator[str]:
        """Yield each image that a result names, once."""
        yield from dict.fromkeys(ref for item in self._items.values() if (ref := _image(item)) is not None)

    def image(self, ref: str, png: bytes) -> None:
        """Take an image as it is served, marked if an item made it; it is looked for in the store, too."""
        if ref in self._made and not _is_marked(png):
            self._violated("marked", f"image {ref} is served without the mark of a synthetic image")
        if self._store is not None:
            self._check_stored(self._store / blob_name(ref), ref)

    def unread(self, ref: str, error: ArtifactMissing | ArtifactCorrupt) -> None:
        """Take note that an image is not served."""
        self._violated("artifact-before-row", f"image {ref} is not served: {error.detail}")

    def ended(self, run: Run) -> Audit:
        """Compare the counts with the items, and return what was found; ``run`` is read last."""
        counted = Counter(item.state for item in self._items.values())
        noted = run.request_counts
        actual = {state: counted[state] for state in ("done", "filtered", "failed", "cancelled")}
        if {"total": self._listed, "pending": 0, **actual} != noted.model_dump():
            told = ", ".join(f"{name} {number}" for name, number in noted)
            self._violated("accounting", f"the run counts {told}; {self._listed} items are listed: {actual}")
        if self._results != self._listed:
            self._violated("exactly-once", f"{self._listed} items and {self._results} results are listed")
        if self._last is None or (self._last.state, self._last.request_counts) != (run.state, noted):
            self._violated("accounting", "the newest event tells another state than the run")
        return Audit(
            run=run.id, state=run.state, events=self._events, items=self._listed,
            images=len(list(self.images())), stored=None if self._store is None else self._stored,
            violations=self._found,
        )  # fmt: skip

    def _check_stored(self, file: Path, ref: str) -> None:
        if not file.is_file():
            self._violated("artifact-before-row", f"image {ref} is not in the store")
            return
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() == ref:
            self._stored += 1
        elif not data.startswith(_PACKED):
            self._violated("artifact-before-row", f"the stored bytes of image {ref} do not match its digest")

    def _violated(self, invariant: Invariant, what: str) -> None:
        self._found.append(Violation(invariant=invariant, what=what))


def _blob_folder(store: Path) -> Path:
    if not (store / "blobs").is_dir():
        raise InvalidRequest(f"{str(store)!r} is not the folder of a store: it has no folder 'blobs'")
    return store


def _image(item: RunItem[Any]) -> str | None:
    found: str | None = getattr(item.result, "image", None)
    return found


def _is_marked(png: bytes) -> bool:
    texts = [bytes(content) for kind, content in chunks(png) if kind in (b"tEXt", b"iTXt")]
    return _SYNTHETIC in texts and any(term in text for text in texts for term in _TERMS)
