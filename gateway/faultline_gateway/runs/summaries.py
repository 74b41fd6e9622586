"""Summaries and reports of runs of every method, remade only when the run has changed."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from faultline_core.contract.runs import RunItem
from faultline_gateway.runs.context import RunContext
from faultline_gateway.runs.method import Method

ItemT = TypeVar("ItemT", bound=RunItem[Any])
SummaryT = TypeVar("SummaryT", bound=BaseModel)
ViewT = TypeVar("ViewT")

KEPT = 32
"""Summaries in memory; a bootstrap of 2,000 draws takes seconds, so the last ones are kept."""


def summary_of(
    method: Method[Any, ItemT, SummaryT, ViewT], run_id: str, view: ViewT, context: RunContext
) -> SummaryT:
    """Return the current figures of a run.

    Args:
        method: The method of the run.
        run_id: The run.
        view: The reader's choice, such as a percentile; None if the method has no choice.
        context: The stores of the run's items.

    Raises:
        NotFound: the run does not exist.
    """
    # A run changes only with an event or a revision, so these identify its state. They are read
    # before the items: after a step in between, the next call sums up again and serves nothing old.
    state = (run_id, context.ledger.last_event(run_id).id, method.revision(run_id, context), view)

    def compute() -> SummaryT:
        items = context.ledger.items_of(run_id, method.item)
        return method.summarize(context.ledger.run(run_id), items, view, context)

    return context.cache.get(state, compute)


def report_of(
    method: Method[Any, ItemT, SummaryT, ViewT], run_id: str, view: ViewT, context: RunContext
) -> str:
    """Return the report of a run as one HTML document, made of the summary that `summary_of` returns.

    Raises:
        NotFound: the run does not exist.
    """
    summary = summary_of(method, run_id, view, context)
    items = context.ledger.items_of(run_id, method.item)
    return method.report(summary, context.ledger.run(run_id), items, context.store.get)
