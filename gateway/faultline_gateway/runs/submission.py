"""Turn a request into a durable, planned run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from faultline_core.blobs import digest
from faultline_core.contract.classifiers import ClassifiersUnderTest
from faultline_core.contract.datasets import Dataset
from faultline_core.contract.runs import Run
from faultline_core.errors import InvalidRequest, QuotaExceeded, UnknownDataset
from faultline_gateway.runs.context import RunContext, RunLedger
from faultline_gateway.runs.method import CreateT, Method
from faultline_gateway.runs.stages import StagedMethod
from faultline_gateway.services.functions import with_functions


async def submit(
    method: Method[CreateT, Any, Any, Any], create: CreateT, context: RunContext, key: str | None
) -> Run:
    """Plan a run and store it with all its items; a key that made a run before returns that run.

    Args:
        method: The method of the run.
        create: The request.
        context: The context for planning.
        key: The idempotency key of the request, if it has one.

    Raises:
        IdempotencyConflict: the key was used with another body.
        InvalidRequest: it names functions of the caller's program, and this gateway calls none.
        RequestError: the method cannot plan it.
    """
    # Looked up before planning: a repeated request must not depend on services that are down by now.
    seal = fingerprint(create)
    create, functions = without_functions(create, context)
    run_id = None if key is None else await asyncio.to_thread(context.ledger.run_for_key, key, seal)
    if run_id is None:
        services = with_functions(context.services, functions)
        plan = await method.plan(create, replace(context, services=services))
        run_id = await asyncio.to_thread(
            context.ledger.create_run,
            kind=method.kind,
            dataset=plan.dataset,
            config=plan.config.model_dump(mode="json"),
            items=plan.items,
            fingerprint=seal,
            idempotency_key=key,
            staged=plan.staged and isinstance(method, StagedMethod),
            functions=functions,
        )
    return await asyncio.to_thread(context.ledger.run, run_id)


def without_functions(create: CreateT, context: RunContext) -> tuple[CreateT, dict[str, str]]:
    """Part a request from the addresses of its functions, which no plan, report or answer may hold.

    Raises:
        InvalidRequest: this gateway calls no functions of its callers' programs.
    """
    if not isinstance(create, ClassifiersUnderTest) or not create.functions:
        return create, {}
    if not context.functions_allowed:
        named = ", ".join(map(repr, create.functions))
        raise InvalidRequest(
            f"{named}: this gateway calls no functions of its callers' programs, because it does not listen "
            "on loopback alone, wants API keys, or has its services elsewhere; serve the model where the "
            "services reach it as oip:<url>, or set FAULTLINE_ALLOW_FUNCTIONS=true",
            pointer="/functions",
        )
    return create.model_copy(update={"functions": {}}), dict(create.functions)


def fingerprint(body: BaseModel) -> str:
    """Return the digest of a parsed body."""
    # Of the parsed body: white space and the order of fields do not change a request.
    return digest(body.model_dump_json().encode())


def named_dataset(name: str, pointer: str, ledger: RunLedger) -> Dataset:
    """Return the dataset that a request names.

    Raises:
        UnknownDataset: the dataset does not exist; the caller sets the pointer.
    """
    try:
        return ledger.dataset(name)
    except UnknownDataset as error:
        error.pointer = pointer
        raise


def require_quota(wanted: int, context: RunContext, pointer: str) -> None:
    """Refuse a run of more items than the settings allow.

    Raises:
        QuotaExceeded: the run is too large; the caller sets the pointer.
    """
    if wanted > (most := context.max_items_per_run):
        raise QuotaExceeded(
            f"the run would have {wanted} items, more than {most}; "
            "ask for fewer, or raise FAULTLINE_MAX_ITEMS_PER_RUN",
            pointer=pointer,
        )
