"""Which blobs a tenant may read: those that its datasets, its runs' items and its own uploads name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, exists, or_, select, text

from counterpose_core.contract.recipes import is_recipe
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.tables import rows, schema

_REF = re.compile(r"[0-9a-f]{64}")
# As text: both databases have it, and SQLAlchemy two names for it.
_USE = text("INSERT INTO blob_uses (run_id, ref) VALUES (:run, :ref) ON CONFLICT DO NOTHING")
_KEEP = text(
    "INSERT INTO kept_blobs (tenant, ref, kept_at) VALUES (:tenant, :ref, :at) "
    "ON CONFLICT (tenant, ref) DO UPDATE SET kept_at = excluded.kept_at"
)


class BlobUses(LedgerPart):
    """The part of the ledger that knows whose a blob is; one may be of several tenants."""

    def holds(self, ref: str) -> bool:
        """Return whether an object of the tenant names a blob; True for who sees all."""
        if self._tenant is None:
            return True
        sources = schema.sources.c
        of_source = or_(sources.image == ref, sources.mask == ref)
        of_source &= (schema.datasets.c.tenant == self._tenant) & schema.KEPT_DATASETS
        of_run = (schema.blob_uses.c.ref == ref) & (schema.runs.c.tenant == self._tenant) & rows.KEPT
        own = (schema.kept_blobs.c.ref == ref) & (schema.kept_blobs.c.tenant == self._tenant)
        # One statement, so that it takes as long for another tenant's blob as for none.
        named = (
            exists(select(1).select_from(schema.sources.join(schema.datasets)).where(of_source))
            | exists(select(1).select_from(schema.blob_uses.join(schema.runs)).where(of_run))
            | exists(select(1).where(own))
        )
        with self._database.reading() as connection:
            return bool(connection.execute(select(named)).scalar_one())

    def keep_blobs(self, refs: Iterable[str]) -> None:
        """Note that a tenant has blobs which no dataset and no item names."""
        at, tenant = self._clock(), self._tenant
        kept = [{"tenant": tenant, "ref": ref, "at": at} for ref in sorted(set(refs))]
        # Who sees all needs no note to see them.
        if tenant is not None and kept:
            with self._database.writing() as connection:
                connection.execute(_KEEP, kept)


def note_uses(connection: Connection, run_id: str, refs: Iterable[str]) -> None:
    """Note that a run names blobs; the run's row is locked, or new."""
    if uses := [{"run": run_id, "ref": ref} for ref in refs]:
        connection.execute(_USE, uses)


def refs_in(document: Any) -> Iterator[str]:
    """Yield each text of a document that is written like the name of a blob, also in recipes of images."""
    if isinstance(document, str):
        if len(document) == 64 and _REF.fullmatch(document):
            yield document
        elif len(document) > 64 and document[64] == "/" and is_recipe(document):
            # The photograph, and where the operation needs them a mask and another photograph.
            yield from _REF.findall(document)
    elif isinstance(document, Mapping):
        for value in document.values():
            yield from refs_in(value)
    # A list is of one type, and most are of a thousand numbers.
    elif isinstance(document, list) and document and not isinstance(document[0], float):
        for value in document:
            yield from refs_in(value)
