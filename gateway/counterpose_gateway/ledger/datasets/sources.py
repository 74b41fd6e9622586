"""Adding sources to a dataset: what is new among them, and what the dataset's row keeps of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select, update

from counterpose_core.blobs import cache_key
from counterpose_core.contract.datasets import RejectedSource
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records.sources import NewSource

_LOOKED_UP = 500
"""Images of one query; SQLite takes 32,766 parameters."""

_datasets = schema.datasets.c
_sources = schema.sources.c


@dataclass(frozen=True)
class Added:
    """What was added to a dataset; ``changed``: whether images that it had got another group or mask.

    ``replaced`` are the masks that they had before.
    """

    sources: Sequence[NewSource]
    changed: bool = False
    replaced: Collection[str] = ()

    @property
    def size(self) -> int:
        """The bytes of the added images as stored."""
        return sum(source.stored for source in self.sources)


def add_sources(connection: Connection, row: RowMapping, sources: Sequence[NewSource]) -> Added:
    """Insert those that the dataset does not have; as `Datasets.add` says. Its row is locked."""
    name, known = row["name"], _known(connection, row["name"], sources)
    seen: Counter[NewSource] = Counter()
    added: list[NewSource] = []
    new_rows: list[dict[str, Any]] = []
    changed, replaced = False, set[str]()
    for source in sources:
        seen[source] += 1
        filenames = known.setdefault((source.image, source.label), [])
        if filenames.count(source.filename) >= seen[source]:
            changed = _restated(connection, name, source, replaced) or changed
            continue
        new_rows.append(_new_row(name, row["n_sources"] + len(added), source, occurrence=len(filenames)))
        filenames.append(source.filename)
        added.append(source)
    if new_rows:
        connection.execute(insert(schema.sources), new_rows)
    return Added(added, changed, replaced)


def restate(
    connection: Connection, row: RowMapping, added: Added, rejected: Sequence[RejectedSource] = ()
) -> None:
    """Write down what the dataset has now, from what it had and what was added.

    The digest is made when it is asked for: it needs all sources.
    """
    values: dict[str, Any] = {}
    if rejected:
        values["rejected"] = _merged(row["rejected"], rejected)
    if added.sources or added.changed:
        labels = {source.label for source in added.sources}
        values |= {
            "classes": row["classes"] if row["fixed_classes"] else sorted({*row["classes"], *labels}),
            "n_sources": row["n_sources"] + len(added.sources),
            "stored_bytes": row["stored_bytes"] + added.size,
            "digest": "", "changes": row["changes"] + 1,
        }  # fmt: skip
    if values:
        connection.execute(update(schema.datasets).where(_datasets.name == row["name"]).values(values))


def _known(
    connection: Connection, name: str, sources: Sequence[NewSource]
) -> dict[tuple[str, str], list[str]]:
    """Return the file names under which the dataset has these images, by image and label."""
    known: dict[tuple[str, str], list[str]] = {}
    images = list({source.image for source in sources})
    for start in range(0, len(images), _LOOKED_UP):
        # By the image alone: with the dataset, too, SQLite would look through all images of the dataset.
        alike = _sources.image.in_(images[start : start + _LOOKED_UP])
        query = select(_sources.dataset, _sources.image, _sources.label, _sources.filename).where(alike)
        for found in connection.execute(query):
            if found.dataset == name:
                known.setdefault((found.image, found.label), []).append(found.filename)
    return known


def _new_row(name: str, ordinal: int, source: NewSource, *, occurrence: int) -> dict[str, Any]:
    # The file name is not part of it: moving files makes no new images.
    identity = cache_key(image=source.image, label=source.label, occurrence=occurrence)
    values = {"dataset": name, "id": identity, "ordinal": ordinal, **vars(source)}
    del values["stored"]  # kept for the dataset as a whole
    return values


def _restated(connection: Connection, name: str, source: NewSource, replaced: set[str]) -> bool:
    """Give an image that the dataset has the group and the mask that it now comes with.

    The mask that it had is added to ``replaced``.
    """
    values = {"group": source.group, "mask": source.mask}
    values = {column: value for column, value in values.items() if value is not None}
    if not values:
        return False
    mine = (
        (_sources.dataset == name)
        & (_sources.image == source.image)
        & (_sources.label == source.label)
        & (_sources.filename == source.filename)
    )
    if source.mask is not None:
        old = select(_sources.mask).where(mine, schema.MASKED_SOURCES, _sources.mask != source.mask)
        replaced.update(connection.execute(old).scalars())
    connection.execute(update(schema.sources).where(mine).values(values))
    return True


def _merged(known: Sequence[Mapping[str, str]], new: Sequence[RejectedSource]) -> list[Mapping[str, str]]:
    by_name: Iterator[tuple[str, Mapping[str, str]]] = ((entry["filename"], entry) for entry in known)
    fresh = {entry.filename: entry.model_dump(exclude_none=True) for entry in new}
    return list((dict(by_name) | fresh).values())
