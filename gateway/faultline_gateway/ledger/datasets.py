"""Datasets and their sources: labelled images, each known by its content and label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from faultline_core.blobs import cache_key
from faultline_core.contract.datasets import Dataset, RejectedSource, Source
from faultline_core.errors import InvalidRequest, UnknownDataset
from faultline_gateway.ledger import rows, schema
from faultline_gateway.ledger.database import LedgerPart

_datasets = schema.datasets.c
_sources = schema.sources.c
# Made once: each request for a run reads them.
_DATASET = select(schema.datasets).where(_datasets.name == bindparam("of_name"))
_LOCKED_DATASET = _DATASET.with_for_update()
_OF_DATASET = (
    select(schema.sources).where(_sources.dataset == bindparam("of_name")).order_by(_sources.ordinal)
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NewSource:
    """A stored image: ``image`` is its blob, ``stored`` bytes long; width and height are in pixels."""

    image: str
    label: str
    filename: str
    caption: str | None
    width: int
    height: int
    group: str | None = None
    stored: int = 0


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Number of images and their bytes as stored, in one dataset and in all together."""

    images: int
    bytes: int
    all_images: int
    all_bytes: int

    def plus(self, images: int, size: int) -> Stored:
        """Return what is stored with so many more images of ``size`` bytes together."""
        return Stored(
            images=self.images + images, bytes=self.bytes + size,
            all_images=self.all_images + images, all_bytes=self.all_bytes + size,
        )  # fmt: skip


class Datasets(LedgerPart):
    """The part of the ledger for datasets and their sources."""

    def create_dataset(
        self, name: str, classes: Sequence[str] | None, check: Callable[[int], None] | None = None
    ) -> Dataset:
        """Make an empty dataset; making it again with the same classes changes nothing.

        ``check`` may refuse a new one by raising: it is given the number of datasets with this one.

        Raises:
            InvalidRequest: a dataset of this name has other classes.
        """
        row = {
            "name": name, "classes": list(classes or []), "fixed_classes": int(classes is not None),
            "digest": _digest(list(classes or []), []), "n_sources": 0, "rejected": [],
            "created_at": self._clock(),
        }  # fmt: skip
        try:
            # Inserted without a look-up: of two concurrent creators only one can find the name free.
            with self._database.writing() as connection:
                connection.execute(insert(schema.datasets).values(row))
                if check is not None:
                    check(connection.execute(select(func.count()).select_from(schema.datasets)).scalar_one())
        except IntegrityError:
            self._refuse_other_classes(name, classes)
        return self.dataset(name)

    def add_sources(
        self,
        name: str,
        sources: Sequence[NewSource],
        rejected: Sequence[RejectedSource] = (),
        check: Callable[[Stored], None] | None = None,
    ) -> int:
        """Add the images that are new and return their number.

        Adding the same image, label and file name again changes nothing but its group, if it comes with one;
        the same image twice in ``sources``, or under another file name, is a second source. ``check`` may
        refuse all by raising: it is given what is stored with them.

        Raises:
            UnknownDataset: no dataset has this name.
        """
        with self._database.writing() as connection:
            row = _dataset_row(connection, name, lock=True)
            ordinal, size = row["n_sources"], 0
            seen: Counter[NewSource] = Counter()
            for source in sources:
                seen[source] += 1
                if _add(connection, name, ordinal, source, times=seen[source]):
                    ordinal, size = ordinal + 1, size + source.stored
            added = int(ordinal - row["n_sources"])
            if check is not None and added:
                check(_stored(connection, row).plus(added, size))
            _restate(connection, row, rejected, size)
        return added

    def stored(self, name: str) -> Stored:
        """Return what is stored in the dataset ``name``, which may not exist yet, and in all."""
        query = select(schema.datasets).where(_datasets.name == name)
        with self._database.reading() as connection:
            return _stored(connection, rows.first(connection, query))

    def has_source(self, name: str, image: str, label: str, filename: str) -> bool:
        """Return whether a dataset has an image under this label and file name."""
        query = select(_sources.id).where(_sources.dataset == name, _sources.image == image)
        query = query.where(_sources.label == label, _sources.filename == filename)
        with self._database.reading() as connection:
            return rows.first(connection, query) is not None

    def dataset(self, name: str) -> Dataset:
        """Return the dataset.

        Raises:
            UnknownDataset: no dataset has this name.
        """
        with self._database.reading() as connection:
            return rows.dataset(_dataset_row(connection, name))

    def has_fixed_classes(self, name: str) -> bool:
        """Return whether the dataset was made with a list of classes, so that other labels are refused."""
        with self._database.reading() as connection:
            return bool(_dataset_row(connection, name)["fixed_classes"])

    def dataset_list(self) -> list[Dataset]:
        """Return every dataset by name."""
        with self._database.reading() as connection:
            found = connection.execute(select(schema.datasets)).mappings()
            # Sorted here: PostgreSQL orders letters by the language that it was set up for.
            return sorted((rows.dataset(row) for row in found), key=lambda dataset: dataset.name)

    def sources(self, name: str, *, most: int | None = None) -> list[Source]:
        """Return the sources of a dataset in the order they were added: all, or the first ``most``."""
        query = _OF_DATASET if most is None else _OF_DATASET.where(_sources.ordinal < most)
        with self._database.reading() as connection:
            found = connection.execute(query, {"of_name": name}).mappings().all()
            if not found:
                # Of this name there may be no dataset either.
                _dataset_row(connection, name)
        return [rows.source(row) for row in found]

    def group_classes(self, name: str) -> dict[str, str]:
        """Return the class of each group of a dataset.

        Raises:
            UnknownDataset: no dataset has this name.
        """
        query = select(_sources.group, _sources.label).where(_sources.dataset == name).distinct()
        with self._database.reading() as connection:
            _dataset_row(connection, name)
            found = connection.execute(query.where(_sources.group.is_not(None))).all()
        return {row.group: row.label for row in found}

    def is_source_image(self, image: str) -> bool:
        """Return whether a blob is an image that a user provided, not one that Faultline made."""
        with self._database.reading() as connection:
            return rows.first(connection, select(_sources.id).where(_sources.image == image)) is not None

    def _refuse_other_classes(self, name: str, classes: Sequence[str] | None) -> None:
        with self._database.reading() as connection:
            row = _dataset_row(connection, name)
        known = row["classes"] if row["fixed_classes"] else None
        if known != (None if classes is None else list(classes)):
            raise InvalidRequest(f"a dataset {name!r} with other classes exists already", pointer="/name")


def _stored(connection: Connection, row: RowMapping | None) -> Stored:
    images, size = func.sum(_datasets.n_sources), func.sum(_datasets.stored_bytes)
    all_images, all_bytes = connection.execute(select(images, size)).one()
    return Stored(
        images=0 if row is None else row["n_sources"],
        bytes=0 if row is None else row["stored_bytes"],
        all_images=int(all_images or 0),
        all_bytes=int(all_bytes or 0),
    )


def _add(connection: Connection, name: str, ordinal: int, source: NewSource, *, times: int) -> bool:
    """Add one source unless it already exists that many times; return whether it was added."""
    alike = (_sources.dataset == name) & (_sources.image == source.image) & (_sources.label == source.label)
    filenames = connection.execute(select(_sources.filename).where(alike)).scalars().all()
    if filenames.count(source.filename) >= times:
        if source.group is not None:
            mine = alike & (_sources.filename == source.filename)
            connection.execute(update(schema.sources).where(mine).values(group=source.group))
        return False
    # The file name is not part of it: moving files makes no new images.
    identity = cache_key(image=source.image, label=source.label, occurrence=len(filenames))
    values = {"dataset": name, "id": identity, "ordinal": ordinal, **vars(source)}
    del values["stored"]  # kept for the dataset as a whole
    connection.execute(insert(schema.sources).values(values))
    return True


def _restate(connection: Connection, row: RowMapping, rejected: Sequence[RejectedSource], size: int) -> None:
    mine = _sources.dataset == row["name"]
    # Computed from the rows each time: an incremental digest would accumulate errors.
    found = connection.execute(select(_sources.id, _sources.label, _sources.group).where(mine)).all()
    classes = row["classes"] if row["fixed_classes"] else sorted({label for _, label, _ in found})
    groups = {row.id: row.group for row in found if row.group}
    values = {
        "classes": classes, "n_sources": len(found), "rejected": _merged(row["rejected"], rejected),
        "digest": _digest(classes, [row.id for row in found], groups),
        "stored_bytes": _datasets.stored_bytes + size,
    }  # fmt: skip
    connection.execute(update(schema.datasets).where(_datasets.name == row["name"]).values(values))


def _dataset_row(connection: Connection, name: str, *, lock: bool = False) -> RowMapping:
    row = connection.execute(_LOCKED_DATASET if lock else _DATASET, {"of_name": name}).mappings().first()
    if row is None:
        raise UnknownDataset(f"no dataset is named {name!r}; create it, or list those that exist")
    return row


def _digest(
    classes: Sequence[str], source_ids: Sequence[str], groups: Mapping[str, str] | None = None
) -> str:
    # Without groups as before there were any: the digest of a dataset is part of stored configurations.
    grouped = {"groups": sorted(groups.items())} if groups else {}
    return cache_key(classes=list(classes), sources=sorted(source_ids), **grouped)


def _merged(known: Sequence[dict[str, str]], new: Sequence[RejectedSource]) -> list[dict[str, str]]:
    by_name: Iterator[tuple[str, dict[str, str]]] = ((entry["filename"], entry) for entry in known)
    fresh = {entry.filename: entry.model_dump(exclude_none=True) for entry in new}
    return list((dict(by_name) | fresh).values())
