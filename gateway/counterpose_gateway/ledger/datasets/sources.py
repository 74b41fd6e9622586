"""Adding sources to a dataset: what is new among them, and what the dataset's row keeps of them.

The digest of a dataset: read as a stream and in order, so that a million images take no more memory.

Sources of a dataset read into a compact table, page by page, and what the table leaves out.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, RowMapping, Select, and_, insert, select, update

from counterpose_core.blobs import cache_key
from counterpose_core.contract.datasets import RejectedSource, Source
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.datasets.import_rows import unknown_dataset
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.source_table import Codes, SourceTable, Texts
from counterpose_gateway.records.sources import NewSource

_LOOKED_UP = 500
"""Images of one query; SQLite takes 32,766 parameters."""

_datasets = schema.datasets.c
_sources = schema.sources.c


@dataclass(frozen=True)
class Added:
    """What was added to a dataset; ``changed``: whether images that it had got another group or mask.

    ``replaced`` are the masks that they had before, and ``leaving`` the bytes of these at most.
    """

    sources: Sequence[NewSource]
    changed: bool = False
    replaced: Collection[str] = ()
    leaving: int = 0

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
    changed, replaced, leaving = False, set[str](), 0
    for source in sources:
        seen[source] += 1
        filenames = known.setdefault((source.image, source.label), [])
        if filenames.count(source.filename) >= seen[source]:
            before = len(replaced)
            changed = _restated(connection, name, source, replaced) or changed
            # The size of a mask alone is not known: it is counted with its image.
            leaving += source.stored if len(replaced) > before else 0
            continue
        new_rows.append(_new_row(name, row["n_sources"] + len(added), source, occurrence=len(filenames)))
        filenames.append(source.filename)
        added.append(source)
    if new_rows:
        connection.execute(insert(schema.sources), new_rows)
    return Added(added, changed, replaced, leaving)


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
    """Give an image that the dataset has the group, mask, pair and further labels that it now comes with.

    The mask that it had is added to ``replaced``.
    """
    values = {"group": source.group, "mask": source.mask, "pair": source.pair, "labels": source.labels}
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


_READ_AT_ONCE = 5_000


def digest_of(connection: Connection, name: str, classes: Sequence[str]) -> str:
    """Return the digest over classes, ids of the sources and, if there are any, groups, labels, masks, pairs.

    It is that of `cache_key` with these inputs, because stored configurations hold such digests.
    """
    mine = _sources.dataset == name
    grouped = and_(mine, schema.GROUPED_SOURCES, _sources.group != "")
    has_groups = connection.execute(select(_sources.id).where(grouped).limit(1)).first() is not None
    counted = hashlib.sha256()

    def feed(text: str) -> None:
        counted.update(text.encode())

    feed('{"classes":' + _json(list(classes)))
    if has_groups:
        feed(',"groups":')
        _feed_list(feed, _pages(connection, select(_sources.id, _sources.group).where(grouped)))
    labelled = and_(mine, schema.LABELLED_SOURCES)
    if connection.execute(select(_sources.id).where(labelled).limit(1)).first() is not None:
        feed(',"labels":')
        _feed_list(feed, _pages(connection, select(_sources.id, _sources.labels).where(labelled)))
    masked = and_(mine, schema.MASKED_SOURCES)
    if connection.execute(select(_sources.id).where(masked).limit(1)).first() is not None:
        feed(',"masks":')
        _feed_list(feed, _pages(connection, select(_sources.id, _sources.mask).where(masked)))
    paired = and_(mine, schema.PAIRED_SOURCES)
    if connection.execute(select(_sources.id).where(paired).limit(1)).first() is not None:
        feed(',"pairs":')
        _feed_list(feed, _pages(connection, select(_sources.id, _sources.pair).where(paired)))
    feed(',"sources":')
    pages = _pages(connection, select(_sources.id).where(mine))
    _feed_list(feed, ([row[0] for row in page] for page in pages))
    feed("}")
    return counted.hexdigest()


def empty_digest(classes: Sequence[str]) -> str:
    """Return the digest of a dataset without sources."""
    return hashlib.sha256(('{"classes":' + _json(list(classes)) + ',"sources":[]}').encode()).hexdigest()


def _pages(connection: Connection, query: Select[*tuple[Any, ...]]) -> Iterator[list[list[Any]]]:
    # In the order of the ids, which are hexadecimal digits: the primary key has that order.
    last: str | None = None
    while True:
        page = query if last is None else query.where(_sources.id > last)
        found = connection.execute(page.order_by(_sources.id).limit(_READ_AT_ONCE)).all()
        if found:
            yield [list(row) for row in found]
        if len(found) < _READ_AT_ONCE:
            return
        last = found[-1].id


def _feed_list(feed: Callable[[str], None], pages: Iterable[list[Any]]) -> None:
    feed("[")
    for number, page in enumerate(pages):
        # Written page by page: a call for each entry would take most of the time.
        feed(("," if number else "") + _json(page)[1:-1])
    feed("]")


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


_OF_TABLE_AT_ONCE = 2_000


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
    captioned, sets = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int32)
    known_labels, known_groups, known_sets = Codes(), Codes(), Codes()
    columns = (
        _sources.id, _sources.image, _sources.label, _sources.group, _sources.caption.is_not(None),
        _sources.mask, _sources.width, _sources.height, _sources.labels,
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
        sets[found] = known_sets.code(row[8])
        found += 1
    return SourceTable(
        ids=ids, images=images, labels=labels, label_names=known_labels.names, captioned=captioned,
        details=reader, places=np.arange(found), groups=groups[:found], group_names=known_groups.names,
        masks=masks, sides=frozenset(sides), sets=sets,
        label_sets=[json.loads(each) for each in known_sets.names],
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

    def sources(self) -> Iterator[Source]:
        columns = list(_sources)
        for row in self.pages(*columns):
            yield rows.source({of.name: value for of, value in zip(columns, row, strict=True)})

    def pages(self, *columns: object) -> Iterator[Sequence[Any]]:
        for start in range(0, self._n, _OF_TABLE_AT_ONCE):
            page = (_sources.ordinal >= start) & (_sources.ordinal < min(self._n, start + _OF_TABLE_AT_ONCE))
            query = select(*columns).where(_sources.dataset == self._key, page)  # type: ignore[call-overload]
            with self._session.reading() as connection:
                found = connection.execute(query.order_by(_sources.ordinal)).all()
            yield from found
