"""The interface of a method: the gateway plans, processes, sums up and reports its runs through it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from counterpose_core.contract.runs import Run, RunItem
from counterpose_core.types import RunKind
from counterpose_gateway.runs.context import RecordedRuns, RunContext
from counterpose_gateway.runs.items import LeasedGroup, Plan, Recorder
from counterpose_gateway.runs.stores import IndexStore
from counterpose_gateway.services.ports import Services

CreateT = TypeVar("CreateT", bound=BaseModel, contravariant=True)
ItemT = TypeVar("ItemT", bound=RunItem[Any])
SummaryT = TypeVar("SummaryT", bound=BaseModel)
ViewT = TypeVar("ViewT", contravariant=True)


class Method(Protocol[CreateT, ItemT, SummaryT, ViewT]):
    """A method: the types of its requests, items and summaries, and the functions on its runs.

    ``CreateT`` is the body of the request, ``ItemT`` an item of a run, ``SummaryT`` the summary. ``ViewT`` is
    the reader's choice for a summary, such as a percentile: hashable, and None if there is no choice.

    run = await submit(method, create, context, key)
    summary = summary_of(method, run.id, view, context)
    """

    @property
    def kind(self) -> RunKind:
        """The kind of its runs."""
        ...

    @property
    def item(self) -> type[ItemT]:
        """The items of its runs."""
        ...

    async def plan(self, create: CreateT, context: RunContext) -> Plan:
        """Resolve a request and plan its items; raises a `RequestError` if it cannot be planned."""
        ...

    async def process(
        self, group: LeasedGroup, *, services: Services, record: Recorder, store: IndexStore
    ) -> None:
        """Give each leased item exactly one outcome; raises `LeaseLost` if another worker owns them."""
        ...

    def revision(self, run_id: str, context: RecordedRuns) -> Hashable:
        """Return the revision of anything besides the run's events that a summary depends on, or None."""
        ...

    def summarize(self, run: Run, items: Iterable[ItemT], view: ViewT, context: RecordedRuns) -> SummaryT:
        """Sum up a run so far; nothing is generated or measured again."""
        ...

    def report(
        self, summary: SummaryT, run: Run, items: Iterable[ItemT], read_image: Callable[[str], bytes]
    ) -> str:
        """Write the report as one HTML document; ``read_image`` returns an image's bytes by its reference."""
        ...


AnyMethod = Method[Any, Any, Any, Any]


class FiguresOfEvents:
    """A base for methods whose figures change with the run's events alone."""

    def revision(self, run_id: str, context: RecordedRuns) -> None:
        """Return nothing: the figures depend only on the run's events."""
