"""Turn a request into a durable, planned run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from counterpose_core.blobs import digest
from counterpose_core.contract.classifiers import FunctionsOfCaller
from counterpose_core.contract.datasets import Dataset
from counterpose_core.contract.runs import Run, RunResume
from counterpose_core.contract.spending import SpendsWithin
from counterpose_core.errors import (
    ClassMapMismatch,
    CounterposeError,
    DatasetNotReady,
    InvalidRequest,
    LeaseLost,
    QuotaExceeded,
    UnknownDataset,
    UnknownModel,
)
from counterpose_core.served_calls import suite_of_request
from counterpose_core.suite import Suite
from counterpose_core.text.plain_text import find_confusable
from counterpose_core.tracing import TRACE
from counterpose_core.types import RunKind
from counterpose_gateway.records.items import LeasedStage, Plan
from counterpose_gateway.records.pace import Pace
from counterpose_gateway.records.spending import Allotment
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.large_plans import STORED_AT_CREATION, store_plan
from counterpose_gateway.runs.method import CreateT, Method
from counterpose_gateway.runs.plan_account import PlanAccount
from counterpose_gateway.services.functions import with_functions

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

BodyT = TypeVar("BodyT", bound=BaseModel)

_logger = logging.getLogger(__name__)


async def submit(
    method: Method[CreateT, Any, Any, Any], create: CreateT, context: RunContext, key: str | None
) -> Run:
    """Plan a run as its method does and store it; as `submit_planned`.

    Raises:
        InvalidRequest: it names functions of the caller's program, and this gateway calls none; or the
            suite's editor lacks an ability that the method needs.
        UnknownModel: the suite lacks a service that the method needs.
    """
    require_services(method, context.suite)
    planned, functions = without_functions(create, context)
    calling = replace(context, services=with_functions(context.services, functions))
    return await submit_planned(
        method, create, lambda: method.plan(planned, calling), context, key, functions=functions
    )


def require_services(method: Method[Any, Any, Any, Any], suite: Suite) -> None:
    """Refuse a method that needs what the suite has not.

    Raises:
        UnknownModel: the suite lacks a service that the method needs.
        InvalidRequest: its editor lacks an ability that the method needs.
    """
    absent = method.absent(suite)
    if absent:
        raise UnknownModel(
            f"the suite {suite.name!r} has no {' and no '.join(absent)}, which the method {method.kind!r} "
            "needs; start the stack with a suite that has it: counterpose up --suite miniature"
        )
    beyond = method.beyond(suite)
    if beyond:
        backends = " and ".join(sorted({preset.backend for preset in suite.editor.presets.values()}))
        raise InvalidRequest(
            f"the editor of the suite {suite.name!r}, by {backends}, lacks "
            f"{' and '.join(map(repr, beyond))}, which the method {method.kind!r} needs; start "
            "the stack with a suite whose editor has it: counterpose up --suite miniature"
        )


async def submit_planned(
    method: Method[Any, Any, Any, Any],
    request: BaseModel,
    plan: Callable[[], Awaitable[Plan]],
    context: RunContext,
    key: str | None,
    *,
    functions: Mapping[str, str] | None = None,
    budget_of: SpendsWithin | None = None,
) -> Run:
    """Plan a run and store it, a large one in part; a key that made a run before returns that run.

    Args:
        method: The method of the run.
        request: All that tells this request from others of the same key.
        plan: Plans the run.
        context: The context for planning.
        key: The idempotency key of the request, if it has one.
        functions: The addresses of the run's functions; default: those of its parent.
        budget_of: The request whose budget it has, if not its own.

    Raises:
        BudgetSpent: planning would ask servers of others for more than the budget; nothing is created.
        IdempotencyConflict: the key was used with another body.
        PriceMissing: it has a budget in US dollars, and a model that is called has no price.
        RequestError: the method cannot plan it, or its budget bounds nothing.
    """
    # Looked up before planning: a repeated request must not depend on services that are down by now.
    seal = fingerprint(request)
    known = None if key is None else await asyncio.to_thread(context.ledger.runs.for_key, key, seal)
    if known is not None:
        return await asyncio.to_thread(context.ledger.runs.get, known)
    spending = allotment(budget_of or request, method.needs, context)
    account = PlanAccount(spending, pointer=None if budget_of else "/spending")
    with account.kept():
        made = await plan()
    if spending is None:
        # A run that continues another has the budget of that one's request, for itself.
        spending = allotment(getattr(made.config, "request", None), method.needs, context)
    staged = made.staged and method.next_stage is not None
    create = partial(
        context.ledger.runs.create,
        kind=method.kind,
        dataset=made.dataset,
        config=made.config.model_dump(mode="json"),
        fingerprint=seal,
        idempotency_key=key,
        staged=staged,
        parent=made.parent,
        functions=functions,
        trace=TRACE.get(),
        spending=spending,
        calls=account.calls,
    )
    return await asyncio.to_thread(_store, made, method.kind, create, context.ledger)


def allotment(request: object, needs: Container[str], context: RunContext) -> Allotment | None:
    """Return the budget that a request gives its run, if it gives one; raises as `Allotment.required`."""
    limits = request.spending if isinstance(request, SpendsWithin) else None
    if limits is None:
        return None
    return Allotment.required(limits, suite_of_request(request, context.suite, needs))


def _store(made: Plan, kind: RunKind, create: Callable[..., Run], ledger: Ledger) -> Run:
    """Create the run with the first items and go on with some more; a worker stores the rest."""
    if made.sources is None:
        return create(items=list(made.items))
    items = iter(made.items)
    first = list(islice(items, Pace().size))
    following = list(islice(items, 1))
    if not following:
        return create(items=first)
    run_id = create(items=first, plan_sources=made.sources).id
    leased = LeasedStage(run_id=run_id, kind=kind, stage=1, first=len(first), fence=1)
    try:
        store_plan(leased, chain(following, items), ledger.stages, most=STORED_AT_CREATION)
        ledger.stages.release(leased)
    except LeaseLost:
        # All are stored, or another request with this key has made the run and stores them.
        pass
    except CounterposeError as error:
        # The run is durable: its answer must not depend on the rest, which a worker plans.
        _logger.warning("the rest of run %s is left to a worker: %s", run_id, error.detail)
    return ledger.runs.get(run_id)


def without_functions(create: BodyT, context: RunContext) -> tuple[BodyT, dict[str, str]]:
    """Part a request from the addresses of its functions, which no plan, report or answer may hold.

    Raises:
        InvalidRequest: this gateway calls no functions of its callers' programs.
    """
    if not isinstance(create, FunctionsOfCaller) or not create.functions:
        return create, {}
    if not context.functions_allowed:
        named = ", ".join(map(repr, create.functions))
        raise InvalidRequest(
            f"{named}: this gateway calls no functions of its callers' programs, because it does not listen "
            "on loopback alone, wants API keys, or has its services elsewhere; serve the model where the "
            "services reach it as oip:<url>, or set COUNTERPOSE_ALLOW_FUNCTIONS=true",
            pointer="/functions",
        )
    return create.model_copy(update={"functions": {}}), dict(create.functions)


def functions_again(run_id: str, body: RunResume, context: RunContext) -> dict[str, str]:
    """Return the new addresses of a run's functions.

    Raises:
        NotFound: the run does not exist.
        InvalidRequest: the run has no such function, or this gateway calls none.
    """
    _, functions = without_functions(body, context)
    known = context.ledger.runs.functions(run_id)
    if unknown := sorted(functions.keys() - known.keys()):
        there_are = ", ".join(map(repr, sorted(known))) or "none"
        raise InvalidRequest(
            f"run {run_id!r} has no function {unknown[0]!r}; its functions: {there_are}", pointer="/functions"
        )
    return functions


def fingerprint(body: BaseModel) -> str:
    """Return the digest of a parsed body."""
    # Of the parsed body: white space and the order of fields do not change a request.
    return digest(body.model_dump_json().encode())


def named_dataset(name: str, pointer: str, ledger: Ledger) -> Dataset:
    """Return the dataset that a request names.

    Raises:
        DatasetNotReady: it is being imported.
        UnknownDataset: the dataset does not exist; the caller sets the pointer.
    """
    try:
        found = ledger.datasets.get(name)
    except UnknownDataset as error:
        error.pointer = pointer
        raise
    if found.imported is not None and not found.imported.has_ended:
        raise DatasetNotReady(
            f"dataset {name!r} is still being imported: {found.imported.shards_done} of "
            f"{found.imported.shards} shards are done; wait until its import has ended",
            pointer=pointer,
        )
    return found


def require_told_apart(classes: Sequence[str], dataset: str) -> None:
    """Refuse classes of a dataset of which a reader cannot tell two apart.

    Raises:
        ClassMapMismatch: two look alike.
    """
    if alike := find_confusable(classes):
        raise ClassMapMismatch(
            f"the classes {alike[0]!r} and {alike[1]!r} of dataset {dataset!r} look alike; rename one",
            pointer="/dataset",
        )


def require_quota(wanted: int, context: RunContext, pointer: str) -> None:
    """Refuse a run of more items than the settings or the tenant's quota allow.

    Raises:
        QuotaExceeded: the run is too large; the caller sets the pointer.
    """
    if wanted > (most := context.max_items_per_run):
        raise QuotaExceeded(
            f"the run would have {wanted} items, more than {most}; "
            "ask for fewer, or raise COUNTERPOSE_MAX_ITEMS_PER_RUN",
            pointer=pointer,
        )
    refusal = (context.allowance or context.ledger.access.allowance()).refusal(wanted)
    if refusal is not None:
        refusal.pointer = pointer
        raise refusal
