"""Rows of datasets: found, locked, and what is stored with them."""

from __future__ import annotations

from sqlalchemy import Connection, RowMapping, bindparam, func, select

from counterpose_core.errors import UnknownDataset
from counterpose_core.text.near_names import did_you_mean
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.sources import Stored

_datasets = schema.datasets.c

_MOST_NEAR = 1000
"""Datasets among which a misspelt name is looked for."""

# Made once: each request for a run reads them.
_DATASET = select(schema.datasets, schema.EXPIRES_AT).where(
    _datasets.name == bindparam("of_name"), schema.KEPT_DATASETS
)

_LOCKED_DATASET = _DATASET.with_for_update()


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
    return dataset_row(connection, key, lock=True)


def find_dataset(connection: Connection, key: str, *, lock: bool = False) -> RowMapping | None:
    """Return a dataset's row, or None if there is none."""
    return connection.execute(_LOCKED_DATASET if lock else _DATASET, {"of_name": key}).mappings().first()


def dataset_row(connection: Connection, key: str, *, lock: bool = False) -> RowMapping:
    """Return a dataset's row; raises `UnknownDataset`."""
    row = find_dataset(connection, key, lock=lock)
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
