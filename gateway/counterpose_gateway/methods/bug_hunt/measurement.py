"""Measure descriptions of the user's own by a child run of a hunt."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pydantic import BaseModel

from counterpose_core.bug_hunt.descriptions import named_label
from counterpose_core.contract.bug_hunts import BugHuntConfig, BugHuntCreate, DescriptionsCreate, HuntBudget
from counterpose_core.contract.runs import Run
from counterpose_core.errors import RunNotEnded
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from counterpose_gateway.methods.bug_hunt.plan import plan
from counterpose_gateway.records.items import Plan
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.runs.submission import submit_planned, without_functions
from counterpose_gateway.services.functions import with_functions


class _Asked(BaseModel):
    """All that tells one request for a measurement from another."""

    run_id: str
    create: DescriptionsCreate


async def start_measurement(
    run_id: str, create: DescriptionsCreate, context: RunContext, key: str | None = None
) -> Run:
    """Start a child run that measures descriptions of the user's own; the hunt itself is never reopened.

    Raises:
        NotFound, RunNotEnded: there is no such hunt, or it is still going on.
        InvalidRequest, ...: as of `plan`.
        IdempotencyConflict: the key was used for something else.
    """
    bare, functions = without_functions(create, context)

    hunt = await asyncio.to_thread(context.ledger.runs.get, run_id, "bug-hunt")

    async def planned() -> Plan:
        request = await _request(hunt, bare, context)
        served = functions or dict(await asyncio.to_thread(context.ledger.runs.functions, run_id))
        calling = replace(context, services=with_functions(context.services, served))
        return replace(await plan(request, calling), parent=run_id)

    asked = _Asked(run_id=run_id, create=bare)
    return await submit_planned(
        BUG_HUNT,
        asked,
        planned,
        context,
        key,
        functions=functions or None,
        budget_of=BugHuntConfig.model_validate(hunt.resolved_config).request,
    )


async def _request(parent: Run, create: DescriptionsCreate, context: RunContext) -> BugHuntCreate:
    """Return the request of a child run: that of the hunt, with these descriptions instead of a search.

    Its seed follows from the hunt's and the number of its children, so that its images are fresh.

    Raises:
        RunNotEnded: the hunt is still going on.
    """
    if parent.state not in FINAL_RUN_STATES:
        raise RunNotEnded(f"run {parent.id!r} is {parent.state}; wait for its end, or cancel it")
    asked = BugHuntConfig.model_validate(parent.resolved_config).request
    children: list[Run] = await asyncio.to_thread(context.ledger.runs.children, parent.id)
    seed = derive_seed(asked.seed, "descriptions", len(children)) if create.seed is None else create.seed
    images = create.images or asked.held_out
    named = {named_label(text, asked.labels) for text in create.descriptions}
    return asked.model_copy(
        update={
            "descriptions": create.descriptions,
            "photographs": create.photographs,
            # The hunt has measured it.
            "mixture": None,
            # All, if none is named: the plan says so.
            "labels": [label for label in asked.labels if label in named] or asked.labels,
            "held_out": images,
            "budget": HuntBudget(images=2 * images * len(create.descriptions), minutes=asked.budget.minutes),
            "seed": seed,
            "refine": 0,
        }
    )
