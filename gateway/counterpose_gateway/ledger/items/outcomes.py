"""Outcomes of leased items, recorded under the fence of the lease: together if they end together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, select, update

from counterpose_core.types import Cost, ItemState
from counterpose_gateway.ledger.blobs import note_uses, refs_in
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.runs.transitions import Step, move_by
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.items import MAX_ATTEMPTS, RETRY_SECONDS
from counterpose_gateway.records.measurements import Attempt
from counterpose_gateway.records.outcomes import Done, Ended, Failed, Filtered, Outcome, run_of

_items = schema.items.c
_CONCLUDE = update(schema.items).where(_items.id == bindparam("key"))

_LEASED = select(
    _items.id, _items.fence, _items.attempts, _items.ordinal, _items.due_at, _items.kind, _items.edit_type,
    _items.label,
).where(_items.id.in_(bindparam("ids", expanding=True)), rows.LEASED)  # fmt: skip


def record(session: Session, ended: Sequence[Ended]) -> list[Ended]:
    """Record outcomes as `Items.record_many` says."""
    if not ended:
        return []
    run_id = run_of(ended[0])
    # Written before the transaction: the lock is held for the ledger's own work alone.
    documents = {id(each.outcome): _document(each.outcome) for each in ended}
    made = {key: set(refs_in(document)) for key, document in documents.items()}
    with session.writing() as connection:
        run = rows.locked_counters(connection, run_id)
        # The leases of a run that is being cancelled are void before all its items are cancelled.
        leased = {} if run["state"] == "cancelling" else _leased(connection, ended)
        held: list[tuple[RowMapping, Outcome]] = []
        lost: list[Ended] = []
        for each in ended:
            # Taken away: a second outcome of the item in one call is as late as one in the next call.
            item = leased.pop((each.item_id, each.fence), None)
            if item is None:
                lost.append(each)
            else:
                held.append((item, each.outcome))
        if held:
            _record(session, connection, run, held, documents)
            refs = {ref for _, outcome in held for ref in made[id(outcome)]}
            note_uses(connection, run_id, sorted(refs))
    return lost


def _record(
    session: Session,
    connection: Connection,
    run: RowMapping,
    found: Sequence[tuple[RowMapping, Outcome]],
    documents: Mapping[int, Any],
) -> None:
    now = session.lease_time()
    concluded = [
        {**_conclusion(item, outcome, now), "key": item["id"], "result": documents[id(outcome)]}
        for item, outcome in found
    ]
    connection.execute(_CONCLUDE, concluded)
    again = [values["due_at"] for values in concluded if values["state"] == "pending"]
    if again and run["idle_until"] is not None:
        # The run's other items may be leased for longer than these are paused.
        sooner = {"idle_until": min(run["idle_until"], *again)}
        connection.execute(update(schema.runs).where(schema.runs.c.id == run["id"]).values(sooner))
    steps = [_step(item, outcome, values) for (item, outcome), values in zip(found, concluded, strict=True)]
    move_by(connection, run, steps, now=session.clock())


def _leased(connection: Connection, ended: Sequence[Ended]) -> dict[tuple[str, int], RowMapping]:
    """Return the leased items by id and fence; the run is locked, so nobody changes them meanwhile."""
    # The fence decides, not the worker's name: a process may restart under the same name.
    found = connection.execute(_LEASED, {"ids": [each.item_id for each in ended]}).mappings()
    return {(item["id"], item["fence"]): item for item in found}


def _document(outcome: Outcome) -> Any:
    if isinstance(outcome, Failed) or outcome.result is None:
        return None
    return outcome.result.model_dump(mode="json")


def _conclusion(item: RowMapping, outcome: Outcome, now: float) -> dict[str, Any]:
    values: dict[str, Any] = {
        "reason": None, "code": None, "detail": None, "worker": None, "due_at": item["due_at"]
    }  # fmt: skip
    if isinstance(outcome, Done):
        return values | {"state": "done"}
    if isinstance(outcome, Filtered):
        return values | {"state": "filtered", "reason": outcome.reason, "detail": outcome.detail}
    values |= {"code": outcome.code, "detail": outcome.detail}
    if not outcome.retryable or item["attempts"] >= MAX_ATTEMPTS:
        return values | {"state": "failed"}
    return values | {"state": "pending", "due_at": now + _pause(item)}


def _pause(item: RowMapping) -> float:
    # Items that failed together are spread by their ordinal, so that they do not return together.
    spread = 0.5 + item["ordinal"] % 8 / 14
    return float(RETRY_SECONDS * 2 ** (item["attempts"] - 1) * spread)


def _step(item: RowMapping, outcome: Outcome, values: Mapping[str, Any]) -> Step:
    state: ItemState = values["state"]
    changes = {} if state == "pending" else {"pending": -1, state: 1}
    attempt = Attempt(item["kind"], "retried" if state == "pending" else state)
    return Step(
        changes=changes, message=_message(item, state, values), cost=_cost(outcome), attempts=[attempt]
    )


def _cost(outcome: Outcome) -> Cost | None:
    return None if isinstance(outcome, Failed) or outcome.result is None else outcome.result.cost


def _message(item: RowMapping, state: ItemState, values: Mapping[str, Any]) -> str:
    what = item["kind"] if item["edit_type"] is None else f"{item['edit_type']} edit"
    why = values["reason"] or values["code"] or ""
    return f"{what} of {item['label']}: {state}{f' ({why})' if why else ''}"
