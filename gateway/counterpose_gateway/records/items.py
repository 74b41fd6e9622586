"""The types that ledger and methods exchange: plans, planned items, leased groups, the recorder.

Plain dataclasses and a Protocol, so that methods do not depend on the database, nor the ledger on a method.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel

from counterpose_core.errors import LeaseLost
from counterpose_core.types import EditType, ItemKind, RunState
from counterpose_gateway.records.outcomes import Outcome

MAX_ATTEMPTS = 3
"""How often an item is leased, unless it ends before."""

RETRY_SECONDS = 2.0
"""A retryable failure waits about this long, doubled by attempt, before the next try."""


@dataclass(frozen=True, kw_only=True)
class PlannedItem:
    """One unit of work of a run; ``item_key`` is unique in the run, ``ordinal`` counts from 0 in its stage.

    Items with one ``item_group`` are leased together. ``caption`` is the user's caption or the one that
    an earlier stage wrote, or None if the captioner is to write it. An item that is made from no image names
    one of its class. ``instruction`` is what a later stage asks of it, as JSON, for the method to read.
    ``labels`` are the further labels of its source, None without.
    """

    item_key: str
    ordinal: int
    kind: ItemKind
    item_group: str
    source_image: str
    label: str
    edit_type: EditType | None = None
    slot: int = 0
    caption: str | None = None
    instruction: Mapping[str, Any] | None = None
    labels: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class LeasedItem(PlannedItem):
    """A planned item that this worker holds: every write names ``fence``, so a zombie writes nothing."""

    id: str
    fence: int
    attempt: int


@dataclass(frozen=True)
class Plan:
    """A run as a method planned it, before it is stored: its resolved configuration and all its items.

    ``items`` is read once. Of a large plan only the first are read at the creation of the run, if the method
    can plan the rest again: ``sources`` then has the datasets that it is made from and how many of their
    sources; None where all items are to be stored with the run.
    ``staged``: whether the method, if it has stages, is asked for more once these items have ended.
    ``parent``: the ended run that this one continues, if any.
    """

    dataset: str
    config: BaseModel
    items: Iterable[PlannedItem]
    staged: bool = True
    parent: str | None = None
    sources: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class LeasedGroup:
    """All leased items of one group of one run. In a stress test they share a source image and its caption.

    ``config`` is the run's stored configuration, for the method of this ``kind`` to read; ``functions`` are
    the addresses of those of its classifiers that the caller's program serves, by name; ``trace`` is the
    ``traceparent`` of the request that made the run, if that was traced.
    """

    run_id: str
    kind: str
    config: Mapping[str, Any]
    item_group: str
    items: Sequence[LeasedItem]
    # Not shown: an address holds a secret.
    functions: Mapping[str, str] = field(default_factory=dict, repr=False)
    trace: str | None = None


@dataclass(frozen=True, kw_only=True)
class LeasedStage:
    """The lease under which this process plans a run's next stage: every write names ``fence``.

    ``stage`` is the one to plan, counted from 1; its first item, or the first one that is missing of stage 1,
    gets the ordinal ``first`` in the run. ``sources`` are those of the run's `Plan`, for stage 1 alone.
    """

    run_id: str
    kind: str
    stage: int
    first: int
    fence: int
    sources: Mapping[str, int] = field(default_factory=dict)


def numbered(items: Iterable[PlannedItem]) -> Iterator[PlannedItem]:
    """Give planned items the ordinals of one stage."""
    for ordinal, item in enumerate(items):
        yield replace(item, ordinal=ordinal)


class Recorder(Protocol):
    """Records a method's outcomes: exactly one for each leased item.

    async def all_failed(record: Recorder, group: LeasedGroup, error: CounterposeError) -> None:
        await record.ended([(item, Failed(code=error.code, detail=error.detail)) for item in group.items])
    """

    async def ended(self, outcomes: Sequence[tuple[LeasedItem, Outcome]]) -> None:
        """Record outcomes together; a retryable failure goes back to pending while attempts are left.

        Raises:
            LeaseLost: another worker owns some of the items now; the others are recorded.
        """

    async def cancelled(self) -> bool:
        """Return whether the run is being cancelled; polled between service calls."""


class LargeRun(NamedTuple):
    """A run with many items: how many have ended so far."""

    id: str
    kind: str
    state: RunState
    ended: int


def no_lease_left(group: LeasedGroup) -> LeaseLost:
    """Return the error that says so."""
    return LeaseLost(
        f"no lease of group {group.item_group!r} in run {group.run_id!r} is left; drop its results"
    )
