"""Runs a hunt in this process: the product's plan, work, stages and summary over the engines."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from faultline_core.blobs import cache_key
from faultline_core.contract.bug_hunt_summary import BugHuntSummary
from faultline_core.contract.bug_hunts import BugHuntCreate, HuntInstruction, HuntItem, HuntResult
from faultline_core.contract.runs import RequestCounts, Run
from faultline_core.errors import error_for
from faultline_core.suite import Suite
from faultline_core.types import RunState
from faultline_gateway.methods.bug_hunt.plan import plan
from faultline_gateway.methods.bug_hunt.process import process
from faultline_gateway.methods.bug_hunt.stages import next_stage
from faultline_gateway.methods.bug_hunt.summary import summarize
from faultline_gateway.runs.context import RunContext
from faultline_gateway.runs.items import LeasedGroup, LeasedItem, PlannedItem
from faultline_gateway.runs.outcomes import Done, Failed, Outcome

from .engines import Engines

_BEGAN = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
"""A hunt in one process has no times of its own."""
_MOST_ITEMS = 1_000_000


class _Record:
    """Keeps what the method records of its items."""

    def __init__(self) -> None:
        self.ended_as: dict[str, Outcome] = {}

    async def ended(self, outcomes: Sequence[tuple[LeasedItem, Outcome]]) -> None:
        """Keep results; a failure of the services ends the validation.

        Raises:
            FaultlineError: an item failed for a reason that another time may not have.
        """
        for item, outcome in outcomes:
            if isinstance(outcome, Failed) and outcome.retryable:
                raise error_for(outcome.code, outcome.detail)
            self.ended_as[item.item_key] = outcome

    async def cancelled(self) -> bool:
        """Go on: nobody cancels."""
        return False


def hunt(create: BugHuntCreate, engines: Engines, suite: Suite) -> BugHuntSummary:
    """Run a hunt to its end and sum it up."""
    return asyncio.run(_hunted(create, engines, suite))


async def _hunted(create: BugHuntCreate, engines: Engines, suite: Suite) -> BugHuntSummary:
    context = RunContext(
        services=engines.services,
        suite=suite,
        store=engines.store,
        # A hunt has no dataset, and nothing of it is cached.
        ledger=cast(Any, None),
        cache=cast(Any, None),
        max_items_per_run=_MOST_ITEMS,
    )
    planned = await plan(create, context)
    config = planned.config.model_dump(mode="json")
    items, stage, more = list[HuntItem](), 1, list(planned.items)
    while more:
        items += await _ended(more, config, engines, stage=stage, first=len(items))
        following = next_stage(_run(config, items, stage, "finalizing"), iter(items))
        more, stage = list(following.items) if following else [], stage + 1
    return summarize(_run(config, items, stage, "completed"), items)


async def _ended(
    planned: Sequence[PlannedItem], config: dict[str, Any], engines: Engines, *, stage: int, first: int
) -> list[HuntItem]:
    groups: dict[str, list[LeasedItem]] = {}
    for item in planned:
        leased = LeasedItem(**vars(item), id=item.item_key, fence=1, attempt=1)
        groups.setdefault(item.item_group, []).append(leased)
    record = _Record()
    for name, leased_items in groups.items():
        group = LeasedGroup(
            run_id="hunt", kind="bug-hunt", config=config, item_group=name, items=leased_items
        )
        await process(group, services=engines.services, record=record, store=engines.store)
    return [
        _item(item, record.ended_as[item.item_key], stage, first + number)
        for number, item in enumerate(planned)
    ]


def _item(planned: PlannedItem, outcome: Outcome, stage: int, ordinal: int) -> HuntItem:
    result = None if isinstance(outcome, Failed) else outcome.result
    assert result is None or isinstance(result, HuntResult)
    done = isinstance(outcome, Done)
    return HuntItem(
        id=planned.item_key,
        ordinal=ordinal,
        kind=planned.kind,
        item_group=planned.item_group,
        source_image=planned.source_image,
        label=planned.label,
        slot=planned.slot,
        stage=stage,
        state="done" if done else "failed" if isinstance(outcome, Failed) else "filtered",
        code=outcome.code if isinstance(outcome, Failed) else None,
        reason=None if isinstance(outcome, Done | Failed) else outcome.reason,
        result=result,
        instruction=HuntInstruction.model_validate(planned.instruction),
    )


def _run(config: dict[str, Any], items: Sequence[HuntItem], stage: int, state: RunState) -> Run:
    ended = Counter(item.state for item in items)
    counts = {name: ended[name] for name in ("done", "filtered", "failed", "cancelled")}
    return Run(
        id=cache_key(config=config)[:32],
        kind="bug-hunt",
        state=state,
        dataset="",
        created_at=_BEGAN,
        started_at=_BEGAN,
        ended_at=_BEGAN,
        request_counts=RequestCounts(total=len(items), pending=0, **counts),
        resolved_config=config,
        stage=stage,
    )
