"""Sources of a dataset read into a compact table, page by page, and what the table leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import select

from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.datasets.dataset_rows import unknown_dataset
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records.source_table import Codes, SourceTable, Texts

_READ_AT_ONCE = 2_000
_datasets = schema.datasets.c
_sources = schema.sources.c


def read_table(session: Session, key: str, most: int | None) -> SourceTable:
    """Return the sources of the dataset of a key as `Datasets.table` says."""
    with session.reading() as connection:
        there = connection.execute(
            select(_datasets.n_sources).where(_datasets.name == key, schema.KEPT_DATASETS)
        ).scalar()
        if there is None:
            raise unknown_dataset(connection, key)
    n = there if most is None else min(there, most)
    reader = _SourcePages(session, key, n)
    ids, images = Texts.of_digests(n), Texts.of_digests(n)
    labels, groups = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
    captioned = np.zeros(n, dtype=bool)
    known_labels, known_groups = Codes(), Codes()
    columns = (
        _sources.id, _sources.image, _sources.label, _sources.group, _sources.caption.is_not(None),
        _sources.mask, _sources.width, _sources.height,
    )  # fmt: skip
    masks: Texts | None = None
    sides = set[int]()
    found = 0
    for row in reader.pages(*columns):
        ids.values[found], images.values[found] = bytes.fromhex(row[0]), bytes.fromhex(row[1])
        labels[found], groups[found] = known_labels.code(row[2]), known_groups.code(row[3])
        captioned[found] = row[4]
        if row[5] is not None:
            masks = masks or Texts.of_digests(n)
            masks.values[found] = bytes.fromhex(row[5])
        sides.add(max(row[6], row[7]))
        found += 1
    return SourceTable(
        ids=ids, images=images, labels=labels, label_names=known_labels.names, captioned=captioned,
        details=reader, places=np.arange(found), groups=groups[:found], group_names=known_groups.names,
        masks=masks, sides=frozenset(sides),
    )  # fmt: skip


class _SourcePages:
    """Reads a dataset's first ``n`` sources by their ordinals, each page in a transaction of its own."""

    def __init__(self, session: Session, key: str, n: int) -> None:
        self._session = session
        self._key = key
        self._n = n

    def captions(self, numbers: Sequence[int]) -> Mapping[int, str]:
        wanted = (_sources.dataset == self._key) & _sources.ordinal.in_(numbers)
        with self._session.reading() as connection:
            found = connection.execute(select(_sources.ordinal, _sources.caption).where(wanted)).all()
        return {ordinal: caption for ordinal, caption in found if caption is not None}

    def filenames(self) -> Iterator[str]:
        return (row[0] for row in self.pages(_sources.filename))

    def pages(self, *columns: object) -> Iterator[Sequence[Any]]:
        for start in range(0, self._n, _READ_AT_ONCE):
            page = (_sources.ordinal >= start) & (_sources.ordinal < min(self._n, start + _READ_AT_ONCE))
            query = select(*columns).where(_sources.dataset == self._key, page)  # type: ignore[call-overload]
            with self._session.reading() as connection:
                found = connection.execute(query.order_by(_sources.ordinal)).all()
            yield from found
