"""A method as a value: its types, the functions on its runs, and what else it is able to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from counterpose_core.contract.editor_backends import Ability
from counterpose_core.contract.runs import Run, RunItem
from counterpose_core.errors import CounterposeError
from counterpose_core.suite import Suite
from counterpose_core.types import ItemKind, RunKind, ServiceName
from counterpose_gateway.records.items import LeasedGroup, Plan, PlannedItem, Recorder
from counterpose_gateway.runs.context import PairedRuns, RecordedRuns, RunContext
from counterpose_gateway.runs.large_plans import PlanInputs
from counterpose_gateway.runs.stages import NextStage
from counterpose_gateway.runs.stores import IndexStore
from counterpose_gateway.services.ports import Services

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

CreateT = TypeVar("CreateT", bound=BaseModel)
ItemT = TypeVar("ItemT", bound=RunItem[Any])
SummaryT = TypeVar("SummaryT", bound=BaseModel)
ViewT = TypeVar("ViewT")

ReadImage = Callable[[str], bytes]
"""Returns an image's bytes by its reference."""


class Process(Protocol):
    """Works on items of one group."""

    def __call__(
        self, group: LeasedGroup, *, services: Services, record: Recorder, store: IndexStore
    ) -> Awaitable[None]:
        """Give each leased item exactly one outcome; raises `LeaseLost` if another worker owns them."""


@dataclass(frozen=True)
class Look:
    """What a look at a run found: whether it is decided, and the problem if the run is to stop."""

    decided: bool
    problem: CounterposeError | None = None


UNDECIDED = Look(decided=False)
"""Too little is recorded yet."""


@dataclass(frozen=True)
class ExportChoice:
    """The images to export in addition to the kept ones.

    ``dropped`` adds those that a filter dropped, ``found`` those that were retrieved or provided.
    """

    dropped: bool = False
    found: bool = False


@dataclass(frozen=True)
class Headline:
    """A run in one sentence; ``state`` is of the worst verdict, empty where there is none."""

    sentence: str
    state: str = ""


class _Judged(Protocol):
    @property
    def verdict(self) -> str: ...


def verdict_alone(summary: _Judged) -> Headline:
    """Return the first line of a verdict."""
    return Headline(summary.verdict.partition("\n")[0])


def of_events_alone(run_id: str, context: RecordedRuns) -> None:
    """Return no revision: the figures change with the run's events alone."""


def planned_items(run: Run) -> int:
    """Return the number of items planned so far: of a run of one stage, all that it will have."""
    return run.request_counts.total


def no_choice(given: Mapping[str, Any]) -> Any:
    """Return no choice: the summary is the same for all readers."""


def never(suite: Suite) -> bool:
    """Return False: the method needs its services in every suite."""
    return False


@dataclass(frozen=True, kw_only=True)
class Method(Generic[CreateT, ItemT, SummaryT, ViewT]):
    """A method: the types of its requests, items and summaries, and the functions on its runs.

    ``CreateT`` is the body of the request, ``ItemT`` an item of a run, ``SummaryT`` the summary. ``ViewT`` is
    the reader's choice for a summary, such as a percentile: hashable, and None if there is no choice. All
    functions are a module's own, because processes that make summaries get the method by their names.

    run = await submit(method, create, context, key)
    summary = summary_of(method, run.id, view, context)

    Attributes:
        kind: the kind of its runs, of which `KINDS` knows title and items.
        needs: the services without which none of its runs can be planned or worked on.
        abilities: what the editor must be able to do for each of its runs.
        can_do_without: returns whether it needs none of them in a suite.
        create: the body of the request.
        item: the items of its runs.
        summary: what `summarize` returns.
        plan: resolves a request and plans its items; raises a `RequestError` if it cannot be planned.
        process: works on items.
        summarize: sums up a run so far; nothing is generated or measured again.
        report: writes the report of a run that is summed up, as one HTML document.
        headline: says a summary in one sentence.
        choices: the parameters of an address by which a reader of a run chooses its figures or images.
        view: returns the choice for a summary, of those parameters that are given; pages give none.
        problems: what may be wrong with a request, besides what may be with the planning of any run.
        revision: the revision of what a summary depends on besides the run's events, or None.
        next_stage: plans the next stage; None of methods that plan their runs whole.
        most_items: the most items that a run can come to have, told from its row alone. It never grows as
            the run goes on, so that what has ended is a share of it that never falls.
        rest_of_plan: yields the items of a run's first stage from an ordinal on, as they were planned before;
            they depend on the run's resolved configuration and on the inputs alone, and no service is
            called. `Plan.items` of such a method is an iterator, and `Plan.sources` is set.
        look: looks at a run after one of its groups was worked on; asked until it is decided.
        keep_columns: keeps at most `KEPT_AT_ONCE` more parts of items that have ended; returns how many.
        live: kinds of items whose newest images pages show while a run goes on: of the first that has any.
        pairs: returns the pairs of source image and counterfactual that the run's filters kept.
        export: returns the dataset card of a run and a record for each image of the choice, as
            `counterpose_gateway.exports` takes them.
    """

    kind: RunKind
    needs: tuple[ServiceName, ...]
    create: type[CreateT]
    item: type[ItemT]
    summary: type[SummaryT]
    plan: Callable[[CreateT, RunContext], Awaitable[Plan]]
    process: Process
    summarize: Callable[[Run, Iterable[ItemT], ViewT, RecordedRuns], SummaryT]
    report: Callable[[SummaryT, Run, Iterable[ItemT], ReadImage], str]
    headline: Callable[[SummaryT], Headline]
    abilities: tuple[Ability, ...] = ()
    can_do_without: Callable[[Suite], bool] = never
    choices: tuple[str, ...] = ()
    view: Callable[[Mapping[str, Any]], ViewT] = no_choice
    problems: tuple[type[CounterposeError], ...] = ()
    revision: Callable[[str, RecordedRuns], Hashable] = of_events_alone
    next_stage: NextStage | None = None
    most_items: Callable[[Run], int] = planned_items
    rest_of_plan: Callable[[Run, PlanInputs, int], Iterator[PlannedItem]] | None = None
    look: Callable[[LeasedGroup, Ledger], Look] | None = None
    keep_columns: Callable[[Run, RecordedRuns], int] | None = None
    live: tuple[ItemKind, ...] = ()
    pairs: PairedRuns | None = None
    export: Callable[[SummaryT, Iterable[ItemT], ExportChoice], tuple[Any, Iterator[Any]]] | None = None

    def absent(self, suite: Suite) -> list[ServiceName]:
        """The services that it needs and the suite has not."""
        if self.can_do_without(suite):
            return []
        return [service for service in self.needs if service not in suite.services]

    def beyond(self, suite: Suite) -> list[Ability]:
        """What it needs of the suite's editor, and no backend of that can do."""
        if suite.editor_part is None:
            return []
        return [each for each in self.abilities if not suite.editor.capabilities.can(each)]


AnyMethod = Method[Any, Any, Any, Any]


@dataclass(frozen=True)
class OfItems(Generic[ItemT, SummaryT]):
    """Sums up by a function of the run and its items alone, whatever the view."""

    function: Callable[[Run, Iterable[ItemT]], SummaryT]

    def __call__(self, run: Run, items: Iterable[ItemT], view: None, context: RecordedRuns) -> SummaryT:
        """Sum up the run."""
        return self.function(run, items)


@dataclass(frozen=True)
class OfSummary(Generic[SummaryT]):
    """Writes a report by a function that reads no item."""

    function: Callable[[SummaryT, Run, ReadImage], str]

    def __call__(
        self, summary: SummaryT, run: Run, items: Iterable[RunItem[Any]], read_image: ReadImage
    ) -> str:
        """Write the report."""
        return self.function(summary, run, read_image)
