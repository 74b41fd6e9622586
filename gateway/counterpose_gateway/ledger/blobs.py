"""Blobs: whose they are, by the rows that name them, and which nothing names any more."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, String, cast, delete, exists, func, or_, select, text

from counterpose_core.contract.recipes import is_recipe
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.sources import LEAVING_SECONDS, NewSource, Stored

_REF = re.compile(r"[0-9a-f]{64}")
# As text: both databases have it, and SQLAlchemy two names for it.
_USE = text("INSERT INTO blob_uses (run_id, ref) VALUES (:run, :ref) ON CONFLICT DO NOTHING")

_KEEP = text(
    "INSERT INTO kept_blobs (tenant, ref, kept_at) VALUES (:tenant, :ref, :at) "
    "ON CONFLICT (tenant, ref) DO UPDATE SET kept_at = excluded.kept_at"
)

# As text, as above. One row for each minute in which something goes, and one for what is kept for good.
_CHARGE = text(
    "INSERT INTO kept_bytes (tenant, until, amount) VALUES (:tenant, :until, :amount) "
    "ON CONFLICT (tenant, until) DO UPDATE SET amount = kept_bytes.amount + excluded.amount"
)

RESERVED_SECONDS = 600.0
"""How long room is held for what is being made."""

_AT_ONCE = 500
"""Digests of one statement; SQLite takes 32,766 parameters."""

_PAGE = 500
_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_loose = schema.loose_digests.c

_NAMING = (schema.sources.c.image, schema.sources.c.mask, schema.blob_uses.c.ref, schema.kept_blobs.c.ref)
"""The columns that name blobs."""

# As text: both databases have it, and SQLAlchemy two names for it.
_LOOSEN = text(
    "INSERT INTO loose_digests (digest, loosened_at) VALUES (:digest, :at) "
    "ON CONFLICT (digest) DO UPDATE SET loosened_at = excluded.loosened_at"
)

_CONFIGURATIONS = select(schema.runs.c.id, cast(schema.runs.c.config, String))


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


def digests_in(texts: Iterable[object]) -> set[str]:
    """Return every digest in these texts: whatever a row means by it, what it names is needed."""
    return {found for each in texts if each is not None for found in _DIGEST.findall(str(each))}


def loosen(connection: Connection, now: float, digests: Collection[str]) -> None:
    """Note that a row which named these is deleted in this transaction."""
    if noted := [{"digest": each, "at": now} for each in sorted(set(digests))]:
        connection.execute(_LOOSEN, noted)


def charge(connection: Connection, tenant: str, amount: int, until: float = 0.0) -> None:
    """Count bytes that a tenant has stored beside its datasets, until a time or for good."""
    if amount:
        minute = 60.0 * math.ceil(until / 60.0)
        connection.execute(_CHARGE, {"tenant": tenant, "until": minute, "amount": amount})


def stored_with(connection: Connection, row: RowMapping | None, tenant: str | None = None) -> Stored:
    """Return what is stored in the dataset of this row, if there is one, and all that its tenant has stored.

    ``tenant``: whose it is; default: the row's.
    """
    images, size = func.sum(schema.datasets.c.n_sources), func.sum(schema.datasets.c.stored_bytes)
    owner = tenant if row is None else row["tenant"]
    all_images, all_bytes = connection.execute(
        select(images, size).where(schema.datasets.c.tenant == owner)
    ).one()
    beside = select(func.sum(schema.kept_bytes.c.amount)).where(schema.kept_bytes.c.tenant == owner)
    return Stored(
        images=0 if row is None else row["n_sources"],
        bytes=0 if row is None else row["stored_bytes"],
        all_images=int(all_images or 0),
        all_bytes=int(all_bytes or 0) + int(connection.execute(beside).scalar() or 0),
    )


def _parts(digests: Sequence[str]) -> Iterator[Sequence[str]]:
    return (digests[start : start + _AT_ONCE] for start in range(0, len(digests), _AT_ONCE))


class Blobs:
    """The blobs that rows name; one may be of several tenants."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def holds(self, ref: str) -> bool:
        """Return whether an object of the tenant names a blob; True for who sees all."""
        if self._session.tenant is None:
            return True
        sources = schema.sources.c
        of_source = or_(sources.image == ref, sources.mask == ref)
        of_source &= (schema.datasets.c.tenant == self._session.tenant) & schema.KEPT_DATASETS
        of_run = (schema.blob_uses.c.ref == ref) & (schema.runs.c.tenant == self._session.tenant) & rows.KEPT
        own = (schema.kept_blobs.c.ref == ref) & (schema.kept_blobs.c.tenant == self._session.tenant)
        # One statement, so that it takes as long for another tenant's blob as for none.
        named = (
            exists(select(1).select_from(schema.sources.join(schema.datasets)).where(of_source))
            | exists(select(1).select_from(schema.blob_uses.join(schema.runs)).where(of_run))
            | exists(select(1).where(own))
        )
        with self._session.reading() as connection:
            return bool(connection.execute(select(named)).scalar_one())

    def keep(self, sizes: Mapping[str, int], check: Callable[[Stored], None] | None = None) -> None:
        """Note that a tenant has blobs of so many bytes which no dataset and no item names.

        ``check`` may refuse all by raising: it is given what is stored with them.
        """
        at, tenant = self._session.clock(), self._session.tenant
        kept = [{"tenant": tenant, "ref": ref, "at": at} for ref in sorted(sizes)]
        # Who sees all needs no note to see them.
        if tenant is not None and kept:
            with self._session.writing() as connection:
                charge(connection, tenant, self._checked(connection, sizes, check))
                connection.execute(_KEEP, kept)

    def check_room(self, sizes: Mapping[str, int], check: Callable[[Stored], None]) -> None:
        """Let ``check`` refuse blobs by raising, before they are stored."""
        with self._session.reading() as connection:
            self._checked(connection, sizes, check)

    def reserve(self, amount: int, check: Callable[[Stored], None]) -> None:
        """Hold room for what is being made, whose size shows later; ``check`` may refuse it by raising."""
        tenant, until = self._session.tenant, self._session.clock() + RESERVED_SECONDS
        if tenant is not None:
            with self._session.writing() as connection:
                check(stored_with(connection, None, tenant).plus(0, amount))
                charge(connection, tenant, amount, until)

    def leave(self, dataset: str, sources: Sequence[NewSource]) -> None:
        """Note images that were stored for a dataset and then refused: they go, and count until then."""
        now, owner = self._session.clock(), rows.dataset_tenant(self._session.key(dataset))
        refs = {ref: each for each in sources for ref in (each.image, each.mask) if ref}
        with self._session.writing() as connection:
            # One that is sent again and again counts once.
            noted = set[str]()
            for some in _parts(sorted(refs)):
                noted.update(
                    connection.execute(select(_loose.digest).where(_loose.digest.in_(some))).scalars()
                )
            new = {each for ref, each in refs.items() if ref not in noted}
            loosen(connection, now, refs)
            charge(connection, owner, sum(each.stored for each in new), now + LEAVING_SECONDS)

    def _checked(
        self, connection: Connection, sizes: Mapping[str, int], check: Callable[[Stored], None] | None
    ) -> int:
        """Return the bytes of the blobs that the tenant does not keep yet."""
        mine, known = schema.kept_blobs.c.tenant == self._session.tenant, set[str]()
        for some in _parts(sorted(sizes)):
            query = select(schema.kept_blobs.c.ref).where(mine, schema.kept_blobs.c.ref.in_(some))
            known.update(connection.execute(query).scalars())
        amount = sum(size for ref, size in sizes.items() if ref not in known)
        if check is not None and amount:
            check(stored_with(connection, None, self._session.tenant).plus(0, amount))
        return amount

    def loosen(self, digests: Collection[str], at: float) -> None:
        """Note blobs that nothing may name any more, since a time."""
        with self._session.writing() as connection:
            loosen(connection, at, digests)

    def loose(self, *, before: float, most: int) -> list[str]:
        """Return those that were noted before a time, longest ago first."""
        query = select(_loose.digest).where(_loose.loosened_at <= before)
        with self._session.reading() as connection:
            return list(connection.execute(query.order_by(_loose.loosened_at).limit(most)).scalars())

    def is_loose(self, digest: str, *, before: float) -> bool:
        """Whether one is still noted, and was not noted again since."""
        query = select(_loose.digest).where(_loose.digest == digest, _loose.loosened_at <= before)
        with self._session.reading() as connection:
            return connection.execute(query).first() is not None

    def settle(self, digests: Collection[str], *, before: float) -> None:
        """Forget the notes: what they are about is named, or gone."""
        for some in _parts(sorted(digests)):
            with self._session.writing() as connection:
                mine = _loose.digest.in_(some) & (_loose.loosened_at <= before)
                connection.execute(delete(schema.loose_digests).where(mine))

    def configured(self) -> set[str]:
        """Return every digest that the configuration of a run names."""
        found, last = set[str](), ""
        while True:
            # A page is a transaction of its own: configurations may be long.
            page = _CONFIGURATIONS.where(schema.runs.c.id > last).order_by(schema.runs.c.id).limit(_PAGE)
            with self._session.reading() as connection:
                rows = connection.execute(page).all()
            found |= digests_in(config for _, config in rows)
            if len(rows) < _PAGE:
                return found
            last = rows[-1][0]

    def named(self, digests: Collection[str]) -> set[str]:
        """Return those that a dataset or a run's item names, or that a tenant keeps."""
        found = set[str]()
        for some in _parts(sorted(digests)):
            with self._session.reading() as connection:
                for column in _NAMING:
                    query = select(column).where(column.in_(some)).distinct()
                    found.update(connection.execute(query).scalars())
        return found

    def erased_from_log(self) -> None:
        """Take what was deleted out of SQLite's log, too; a reader of an old state postpones that."""
        self._session.database.truncate_log()

    def last_deletion(self) -> float | None:
        """Return when a run was deleted last."""
        with self._session.reading() as connection:
            return connection.execute(select(func.max(schema.deleted_runs.c.deleted_at))).scalar()
