"""Datasets and their sources: labelled images, each known by its content and label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from counterpose_core.contract.datasets import Dataset, RejectedSource, Source
from counterpose_core.errors import (
    BackendUnavailable,
    DatasetNotReady,
    InvalidRequest,
    StorageFull,
    UnknownDataset,
)
from counterpose_gateway.ledger.blobs import charge, loosen, stored_with
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.datasets import deletions, import_rows
from counterpose_gateway.ledger.datasets.import_rows import (
    dataset_row,
    find_dataset,
    locked_dataset,
)
from counterpose_gateway.ledger.datasets.sources import (
    add_sources,
    digest_of,
    empty_digest,
    read_table,
    restate,
)
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.pace import never
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.records.sources import LEAVING_SECONDS, NewSource, Stored
from counterpose_gateway.records.tenants import DEFAULT_TENANT

_datasets = schema.datasets.c
_sources = schema.sources.c
_ends = schema.dataset_ends.c

_OF_DATASET = (
    select(schema.sources).where(_sources.dataset == bindparam("of_name")).order_by(_sources.ordinal)
)  # fmt: skip


class Datasets:
    """Datasets and their sources."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
        self,
        name: str,
        classes: Sequence[str] | None,
        check: Callable[[int], None] | None = None,
        *,
        expires_at: float | None = None,
    ) -> Dataset:
        """Make an empty dataset; making it again with the same classes changes nothing.

        ``expires_at``: when a new one ends, in seconds since the epoch.

        ``check`` may refuse a new one by raising: it is given the number of its tenant's datasets.

        Raises:
            DatasetNotReady: one of this name is being deleted.
            InvalidRequest: a dataset of this name has other classes.
        """
        key, tenant = self._session.key(name), self._session.tenant or DEFAULT_TENANT
        row = {
            "name": key, "tenant": tenant, "classes": list(classes or []),
            "fixed_classes": int(classes is not None),
            "digest": empty_digest(classes or []), "n_sources": 0, "rejected": [],
            "created_at": self._session.clock(),
        }  # fmt: skip
        try:
            # Inserted without a look-up: of two concurrent creators only one can find the name free.
            with self._session.writing() as connection:
                connection.execute(insert(schema.datasets).values(row))
                if expires_at is not None:
                    connection.execute(insert(schema.dataset_ends).values(dataset=key, expires_at=expires_at))
                if check is not None:
                    mine = select(func.count()).where(_datasets.tenant == tenant)
                    check(connection.execute(mine).scalar_one())
        except IntegrityError:
            self._refuse_other_classes(name, classes)
        return self.get(name)

    def add(
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
            DatasetNotReady: the dataset is being imported.
            UnknownDataset: no dataset has this name.
        """
        with self._session.writing() as connection:
            row = locked_dataset(connection, self._session.key(name))
            import_rows.require_ended(connection, row["name"])
            added = add_sources(connection, row, sources)
            if check is not None and (added.sources or added.leaving):
                check(stored_with(connection, row).plus(len(added.sources), added.size + added.leaving))
            restate(connection, row, added, rejected)
            now = self._session.clock()
            loosen(connection, now, added.replaced)
            charge(connection, row["tenant"], added.leaving, now + LEAVING_SECONDS)
        return len(added.sources)

    def stored(self, name: str) -> Stored:
        """Return what is stored in a dataset, which may not exist yet, and in all of its tenant."""
        query = select(schema.datasets).where(_datasets.name == self._session.key(name))
        with self._session.reading() as connection:
            return stored_with(
                connection, rows.first(connection, query), self._session.tenant or DEFAULT_TENANT
            )

    def has_source(self, name: str, source: NewSource) -> bool:
        """Return whether a dataset has an image under this label and file name, and its mask if any."""
        query = select(_sources.id).where(
            _sources.dataset == self._session.key(name), _sources.image == source.image
        )
        query = query.where(_sources.label == source.label, _sources.filename == source.filename)
        if source.mask is not None:
            query = query.where(_sources.mask == source.mask)
        with self._session.reading() as connection:
            return rows.first(connection, query) is not None

    def get(self, name: str) -> Dataset:
        """Return the dataset.

        Raises:
            UnknownDataset: no dataset has this name.
        """
        return self._digested(self._session.key(name))

    def classes(self, name: str) -> list[str]:
        """Return the classes of a dataset, which takes no time; raises as `get`."""
        with self._session.reading() as connection:
            return list(dataset_row(connection, self._session.key(name))["classes"])

    def has(self, name: str) -> bool:
        """Return whether a dataset has this name."""
        with self._session.reading() as connection:
            return find_dataset(connection, self._session.key(name)) is not None

    def has_fixed_classes(self, name: str) -> bool:
        """Return whether the dataset was made with a list of classes, so that other labels are refused."""
        with self._session.reading() as connection:
            return bool(dataset_row(connection, self._session.key(name))["fixed_classes"])

    def all(self) -> list[Dataset]:
        """Return every dataset by name."""
        with self._session.reading() as connection:
            mine = select(schema.datasets, schema.EXPIRES_AT).where(
                rows.is_own(connection, _datasets.tenant), schema.KEPT_DATASETS
            )
            found = connection.execute(mine).mappings().all()
            imported = set(connection.execute(select(schema.imports.c.dataset)).scalars())
        # Sorted here: PostgreSQL orders letters by the language that it was set up for.
        return [
            rows.dataset(row, None, self._session.tenant) if row["digest"] and row["name"] not in imported
            else self._digested(row["name"])
            for row in sorted(found, key=lambda row: str(row["name"]))
        ]  # fmt: skip

    def sources(self, name: str, *, most: int | None = None) -> list[Source]:
        """Return the sources of a dataset in the order they were added: all, or the first ``most``."""
        query = _OF_DATASET if most is None else _OF_DATASET.where(_sources.ordinal < most)
        with self._session.reading() as connection:
            dataset_row(connection, self._session.key(name))
            found = connection.execute(query, {"of_name": self._session.key(name)}).mappings().all()
        return [rows.source(row) for row in found]

    def group_classes(self, name: str) -> dict[str, str]:
        """Return the class of each group of a dataset.

        Raises:
            UnknownDataset: no dataset has this name.
        """
        key = self._session.key(name)
        query = select(_sources.group, _sources.label).where(_sources.dataset == key).distinct()
        with self._session.reading() as connection:
            dataset_row(connection, key)
            found = connection.execute(query.where(_sources.group.is_not(None))).all()
        return {row.group: row.label for row in found}

    def is_source_image(self, image: str) -> bool:
        """Return whether a blob is an image that a user provided, not one that Counterpose made."""
        query = select(_sources.id).where(_sources.image == image)
        if self._session.tenant is not None:
            query = query.join(schema.datasets).where(_datasets.tenant == self._session.tenant)
        with self._session.reading() as connection:
            return rows.first(connection, query) is not None

    def table(self, name: str, *, most: int | None = None) -> SourceTable:
        """Return the sources of a dataset in the order they were added: all, or the first ``most``.

        Raises:
            UnknownDataset: no dataset has this name.
        """
        return read_table(self._session, self._session.key(name), most)

    def end(self, name: str, expires_at: float | None) -> Dataset:
        """Let a dataset end at a time, in seconds since the epoch, or never; raises `UnknownDataset`."""
        with self._session.writing() as connection:
            key = locked_dataset(connection, self._session.key(name))["name"]
            connection.execute(delete(schema.dataset_ends).where(_ends.dataset == key))
            if expires_at is not None:
                ends = {"dataset": key, "expires_at": expires_at}
                connection.execute(insert(schema.dataset_ends).values(ends))
        return self.get(name)

    def delete(self, name: str) -> None:
        """Delete a dataset with its sources.

        The first of its transactions takes it from everybody's sight; the others delete its rows in chunks.

        Raises:
            DatasetNotReady: it is being imported, or a run about it has not ended.
            UnknownDataset: no dataset has this name.
        """
        deletions.delete_dataset(self._session, self._session.key(name))

    def expire(self) -> int:
        """Delete the datasets whose time is over; return their number.

        One that is being imported, or that a run goes on with, is left for later.
        """
        return deletions.expire(self._session)

    def go_on_deleting(self, stopped: Callable[[], bool] = never) -> None:
        """Go on with deletions that a killed process has left half done."""
        deletions.go_on(self._session, stopped)

    def _digested(self, key: str) -> Dataset:
        """Return a dataset, whose digest is made now if it changed since, unless it is being imported."""
        with self._session.reading() as connection:
            row = dataset_row(connection, key)
            found = rows.dataset(row, import_rows.of_dataset(connection, key), self._session.tenant)
            if found.imported is not None and not found.imported.has_ended:
                # It would be another one at each part.
                return found.model_copy(update={"digest": ""})
            if row["digest"]:
                return found
            digest = digest_of(connection, key, row["classes"])
        unchanged = (_datasets.name == key) & (_datasets.changes == row["changes"])
        # Kept for the next who asks; who cannot write it has it all the same.
        with suppress(BackendUnavailable, StorageFull), self._session.writing() as connection:
            connection.execute(update(schema.datasets).where(unchanged).values(digest=digest))
        return found.model_copy(update={"digest": digest})

    def _refuse_other_classes(self, name: str, classes: Sequence[str] | None) -> None:
        try:
            with self._session.reading() as connection:
                row = dataset_row(connection, self._session.key(name))
        except UnknownDataset:
            raise DatasetNotReady(
                f"dataset {name!r} is being deleted; retry in a moment, or choose another name",
                pointer="/name",
            ) from None
        known = row["classes"] if row["fixed_classes"] else None
        if known != (None if classes is None else list(classes)):
            raise InvalidRequest(
                f"a dataset {name!r} with other classes exists already; choose another name", pointer="/name"
            )
