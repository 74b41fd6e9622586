"""Digests that deleted rows named, and whether any row still names them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlalchemy import Connection, String, cast, delete, func, select, text

from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.tables import schema

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


def digests_in(texts: Iterable[object]) -> set[str]:
    """Return every digest in these texts: whatever a row means by it, what it names is needed."""
    return {found for each in texts if each is not None for found in _DIGEST.findall(str(each))}


def loosen(connection: Connection, now: float, digests: Collection[str]) -> None:
    """Note that a row which named these is deleted in this transaction."""
    if noted := [{"digest": each, "at": now} for each in sorted(set(digests))]:
        connection.execute(_LOOSEN, noted)


class LooseDigests(LedgerPart):
    """The part of the ledger that knows which blobs may go."""

    def loosen(self, digests: Collection[str], at: float) -> None:
        """Note blobs that nothing may name any more, since a time."""
        with self._database.writing() as connection:
            loosen(connection, at, digests)

    def loose_digests(self, *, before: float, most: int) -> list[str]:
        """Return those that were noted before a time, longest ago first."""
        query = select(_loose.digest).where(_loose.loosened_at <= before)
        with self._database.reading() as connection:
            return list(connection.execute(query.order_by(_loose.loosened_at).limit(most)).scalars())

    def is_loose(self, digest: str, *, before: float) -> bool:
        """Whether one is still noted, and was not noted again since."""
        query = select(_loose.digest).where(_loose.digest == digest, _loose.loosened_at <= before)
        with self._database.reading() as connection:
            return connection.execute(query).first() is not None

    def settle(self, digests: Collection[str], *, before: float) -> None:
        """Forget the notes: what they are about is named, or gone."""
        for some in _parts(sorted(digests)):
            with self._database.writing() as connection:
                mine = _loose.digest.in_(some) & (_loose.loosened_at <= before)
                connection.execute(delete(schema.loose_digests).where(mine))

    def configured_digests(self) -> set[str]:
        """Return every digest that the configuration of a run names."""
        found, last = set[str](), ""
        while True:
            # A page is a transaction of its own: configurations may be long.
            page = _CONFIGURATIONS.where(schema.runs.c.id > last).order_by(schema.runs.c.id).limit(_PAGE)
            with self._database.reading() as connection:
                rows = connection.execute(page).all()
            found |= digests_in(config for _, config in rows)
            if len(rows) < _PAGE:
                return found
            last = rows[-1][0]

    def named(self, digests: Collection[str]) -> set[str]:
        """Return those that a dataset or a run's item names, or that a tenant keeps."""
        found = set[str]()
        for some in _parts(sorted(digests)):
            with self._database.reading() as connection:
                for column in _NAMING:
                    query = select(column).where(column.in_(some)).distinct()
                    found.update(connection.execute(query).scalars())
        return found

    def erased_from_log(self) -> None:
        """Take what was deleted out of SQLite's log, too; a reader of an old state postpones that."""
        self._database.truncate_log()

    def last_deletion(self) -> float | None:
        """Return when a run was deleted last."""
        with self._database.reading() as connection:
            return connection.execute(select(func.max(schema.deleted_runs.c.deleted_at))).scalar()


_CONFIGURATIONS = select(schema.runs.c.id, cast(schema.runs.c.config, String))


def _parts(digests: Sequence[str]) -> Iterator[Sequence[str]]:
    return (digests[start : start + _AT_ONCE] for start in range(0, len(digests), _AT_ONCE))
