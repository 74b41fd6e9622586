"""Datasets and their sources: labelled images, each known by its content and label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from sqlalchemy import Connection, RowMapping, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from counterpose_core.contract.datasets import Dataset, RejectedSource, Source
from counterpose_core.errors import (
    BackendUnavailable,
    DatasetNotReady,
    InvalidRequest,
    StorageFull,
    UnknownDataset,
)
from counterpose_core.text.near_names import did_you_mean
from counterpose_gateway.ledger.blobs.loose_digests import loosen
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.datasets import import_states
from counterpose_gateway.ledger.datasets.digests import digest_of, empty_digest
from counterpose_gateway.ledger.datasets.sources import add_sources, restate
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.sources import NewSource, Stored
from counterpose_gateway.records.tenants import DEFAULT_TENANT

_datasets = schema.datasets.c
_sources = schema.sources.c
_MOST_NEAR = 1000
"""Datasets among which a misspelt name is looked for."""
# Made once: each request for a run reads them.
_DATASET = select(schema.datasets, schema.EXPIRES_AT).where(
    _datasets.name == bindparam("of_name"), schema.KEPT_DATASETS
)
_LOCKED_DATASET = _DATASET.with_for_update()
_OF_DATASET = (
    select(schema.sources).where(_sources.dataset == bindparam("of_name")).order_by(_sources.ordinal)
)  # fmt: skip


class Datasets(LedgerPart):
    """The part of the ledger for datasets and their sources."""

    def create_dataset(
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
        key, tenant = self._key(name), self._tenant or DEFAULT_TENANT
        row = {
            "name": key, "tenant": tenant, "classes": list(classes or []),
            "fixed_classes": int(classes is not None),
            "digest": empty_digest(classes or []), "n_sources": 0, "rejected": [],
            "created_at": self._clock(),
        }  # fmt: skip
        try:
            # Inserted without a look-up: of two concurrent creators only one can find the name free.
            with self._database.writing() as connection:
                connection.execute(insert(schema.datasets).values(row))
                if expires_at is not None:
                    connection.execute(insert(schema.dataset_ends).values(dataset=key, expires_at=expires_at))
                if check is not None:
                    mine = select(func.count()).where(_datasets.tenant == tenant)
                    check(connection.execute(mine).scalar_one())
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
            DatasetNotReady: the dataset is being imported.
            UnknownDataset: no dataset has this name.
        """
        with self._database.writing() as connection:
            row = locked_dataset(connection, self._key(name))
            import_states.require_ended(connection, row["name"])
            added = add_sources(connection, row, sources)
            if check is not None and added.sources:
                check(stored_with(connection, row).plus(len(added.sources), added.size))
            restate(connection, row, added, rejected)
            loosen(connection, self._clock(), added.replaced)
        return len(added.sources)

    def stored(self, name: str) -> Stored:
        """Return what is stored in a dataset, which may not exist yet, and in all of its tenant."""
        query = select(schema.datasets).where(_datasets.name == self._key(name))
        with self._database.reading() as connection:
            return stored_with(connection, rows.first(connection, query), self._tenant or DEFAULT_TENANT)

    def has_source(self, name: str, image: str, label: str, filename: str) -> bool:
        """Return whether a dataset has an image under this label and file name."""
        query = select(_sources.id).where(_sources.dataset == self._key(name), _sources.image == image)
        query = query.where(_sources.label == label, _sources.filename == filename)
        with self._database.reading() as connection:
            return rows.first(connection, query) is not None

    def dataset(self, name: str) -> Dataset:
        """Return the dataset.

        Raises:
            UnknownDataset: no dataset has this name.
        """
        return self._digested(self._key(name))

    def classes(self, name: str) -> list[str]:
        """Return the classes of a dataset, which takes no time; raises as `dataset`."""
        with self._database.reading() as connection:
            return list(_dataset_row(connection, self._key(name))["classes"])

    def has_dataset(self, name: str) -> bool:
        """Return whether a dataset has this name."""
        with self._database.reading() as connection:
            return connection.execute(_DATASET, {"of_name": self._key(name)}).first() is not None

    def has_fixed_classes(self, name: str) -> bool:
        """Return whether the dataset was made with a list of classes, so that other labels are refused."""
        with self._database.reading() as connection:
            return bool(_dataset_row(connection, self._key(name))["fixed_classes"])

    def dataset_list(self) -> list[Dataset]:
        """Return every dataset by name."""
        with self._database.reading() as connection:
            mine = select(schema.datasets, schema.EXPIRES_AT).where(
                rows.is_own(connection, _datasets.tenant), schema.KEPT_DATASETS
            )
            found = connection.execute(mine).mappings().all()
            imported = set(connection.execute(select(schema.imports.c.dataset)).scalars())
        # Sorted here: PostgreSQL orders letters by the language that it was set up for.
        return [
            rows.dataset(row, None, self._tenant) if row["digest"] and row["name"] not in imported
            else self._digested(row["name"])
            for row in sorted(found, key=lambda row: str(row["name"]))
        ]  # fmt: skip

    def sources(self, name: str, *, most: int | None = None) -> list[Source]:
        """Return the sources of a dataset in the order they were added: all, or the first ``most``."""
        query = _OF_DATASET if most is None else _OF_DATASET.where(_sources.ordinal < most)
        with self._database.reading() as connection:
            _dataset_row(connection, self._key(name))
            found = connection.execute(query, {"of_name": self._key(name)}).mappings().all()
        return [rows.source(row) for row in found]

    def group_classes(self, name: str) -> dict[str, str]:
        """Return the class of each group of a dataset.

        Raises:
            UnknownDataset: no dataset has this name.
        """
        key = self._key(name)
        query = select(_sources.group, _sources.label).where(_sources.dataset == key).distinct()
        with self._database.reading() as connection:
            _dataset_row(connection, key)
            found = connection.execute(query.where(_sources.group.is_not(None))).all()
        return {row.group: row.label for row in found}

    def is_source_image(self, image: str) -> bool:
        """Return whether a blob is an image that a user provided, not one that Counterpose made."""
        query = select(_sources.id).where(_sources.image == image)
        if self._tenant is not None:
            query = query.join(schema.datasets).where(_datasets.tenant == self._tenant)
        with self._database.reading() as connection:
            return rows.first(connection, query) is not None

    def _digested(self, key: str) -> Dataset:
        """Return a dataset, whose digest is made now if it changed since, unless it is being imported."""
        with self._database.reading() as connection:
            row = _dataset_row(connection, key)
            found = rows.dataset(row, import_states.of_dataset(connection, key), self._tenant)
            if found.imported is not None and not found.imported.has_ended:
                # It would be another one at each part.
                return found.model_copy(update={"digest": ""})
            if row["digest"]:
                return found
            digest = digest_of(connection, key, row["classes"])
        unchanged = (_datasets.name == key) & (_datasets.changes == row["changes"])
        # Kept for the next who asks; who cannot write it has it all the same.
        with suppress(BackendUnavailable, StorageFull), self._database.writing() as connection:
            connection.execute(update(schema.datasets).where(unchanged).values(digest=digest))
        return found.model_copy(update={"digest": digest})

    def _refuse_other_classes(self, name: str, classes: Sequence[str] | None) -> None:
        try:
            with self._database.reading() as connection:
                row = _dataset_row(connection, self._key(name))
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


def stored_with(connection: Connection, row: RowMapping | None, tenant: str | None = None) -> Stored:
    """Return what is stored in the dataset of this row, if there is one, and in all datasets of its tenant.

    ``tenant``: whose it is; default: the row's.
    """
    images, size = func.sum(_datasets.n_sources), func.sum(_datasets.stored_bytes)
    mine = _datasets.tenant == (tenant if row is None else row["tenant"])
    all_images, all_bytes = connection.execute(select(images, size).where(mine)).one()
    return Stored(
        images=0 if row is None else row["n_sources"],
        bytes=0 if row is None else row["stored_bytes"],
        all_images=int(all_images or 0),
        all_bytes=int(all_bytes or 0),
    )


def locked_dataset(connection: Connection, key: str) -> RowMapping:
    """Lock and return a dataset's row: every writer locks it before its import's and its shards'."""
    return _dataset_row(connection, key, lock=True)


def _dataset_row(connection: Connection, key: str, *, lock: bool = False) -> RowMapping:
    row = connection.execute(_LOCKED_DATASET if lock else _DATASET, {"of_name": key}).mappings().first()
    if row is None:
        raise unknown_dataset(connection, key)
    return row


def unknown_dataset(connection: Connection, key: str) -> UnknownDataset:
    """Return the error of a dataset that is missing, or another tenant's."""
    name, own = rows.dataset_name(key), rows.is_own(connection, schema.datasets.c.tenant)
    newest = (
        select(_datasets.name)
        .where(own, schema.KEPT_DATASETS)
        .order_by(_datasets.created_at.desc())
        .limit(_MOST_NEAR)
    )
    meant = did_you_mean(name, map(rows.dataset_name, connection.execute(newest).scalars()))
    return UnknownDataset(f"no dataset is named {name!r}{meant}; create it, or list those that exist")
