"""The columns of a run: joined from parts, each read from its file or made of the ledger's documents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.statistics.coded import Ints
from counterpose_core.types import Cost
from counterpose_gateway.methods.stress_test.columns.columns import ItemColumns, Sums
from counterpose_gateway.methods.stress_test.columns.kept import kept_parts
from counterpose_gateway.methods.stress_test.columns.part import TABLES, empty, part_of
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.summaries.columns import Answers, Codes, ColumnFolder, Ids, Joining, Part, Vectors
from counterpose_gateway.summaries.columns.parts import PART

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

_ANSWERS = tuple(field.name for field in fields(Answers))


def read_columns(run: Run, ledger: Ledger, folder: ColumnFolder | None = None) -> ItemColumns:
    """Read the columns of a run; memory grows by some hundred bytes an item.

    ``folder`` has columns of items that have ended; the others are read from the ledger.
    """
    config = recorded_config(StressTestConfig, run)
    expected = run.request_counts.total
    # A small run is read in less time than its files would take to be looked after.
    if folder is None or expected < PART:
        return _joined(_made(ledger.items.recorded(run.id)), config.groups, expected)
    return _joined(kept_parts(run, ledger, folder), config.groups, expected)


def columns_of(
    items: Iterable[Item] | Iterable[RecordedItem], groups: Mapping[str, str] | None = None
) -> ItemColumns:
    """Make columns of items, one by one.

    ``groups`` names the group of sources that are alike, such as frames of one video; a source that is not in
    it is a unit of its own.
    """
    recorded = (item if isinstance(item, RecordedItem) else RecordedItem.of(item) for item in items)
    return _joined(_made(recorded), groups or {}, 0)


def _made(items: Iterable[RecordedItem]) -> Iterator[Part]:
    rest = iter(items)
    for first in range(0, 1 << 62, PART):
        part = part_of(islice(rest, PART), first)
        if part.length or not first:
            yield part
        if part.length < PART:
            return


def _joined(parts: Iterable[Part], groups: Mapping[str, str], expected: int) -> ItemColumns:
    joining, ids, sums = Joining(TABLES, empty, expected), Ids(), _GrowingSums()
    for part in parts:
        joining.add(part)
        sums.add(part)
        others = {int(place): name for place, name in part.totals["other_ids"].items()}
        ids.extend(part.totals["run"], part.length, others)
    return _columns(joining, groups, ids, sums.sums())


def _columns(joining: Joining, groups: Mapping[str, str], ids: Ids, sums: Sums) -> ItemColumns:
    codes = joining.codes
    source = joining.column("source")
    unit, units = _units(source, codes["source"], groups)
    plain = joining.plain
    return ItemColumns(
        ids=ids,
        unit=unit,
        **{name: joining.column(name) for name in plain},
        names={
            **codes, **{name: codes[table] for name, table in TABLES.items() if name in plain}, "unit": units
        },
        instructions=[Instruction.model_validate_json(name) for name in codes["instruction"].names],
        answers={
            name: Answers(*(joining.column(f"{kind}:{name}") for kind in _ANSWERS))
            for name in joining.named("score_before")
        },
        vectors={
            name: Vectors(joining.column(f"width:{name}"), joining.column(f"row:{name}"))
            for name in joining.named("width")
        },
        features=joining.features,
        sums=sums,
    )  # fmt: skip


def _units(source: Ints, sources: Codes, groups: Mapping[str, str]) -> tuple[Ints, Codes]:
    """The unit of each item, and the units in the order in which they first occur."""
    if not groups:
        # Every source is a unit of its own, of the same number.
        return source, sources
    units = Codes()
    of_source = np.array([units.add(groups.get(name, name)) for name in sources.names], dtype=np.int32)
    return of_source[source], units


class _GrowingSums:
    def __init__(self) -> None:
        self._costs: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._unanswered: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._predicted = 0

    def add(self, part: Part) -> None:
        totals = part.totals
        self._costs.update(totals["cost"])
        for service, seconds in totals["service_seconds"].items():
            self._seconds[service] = self._seconds.get(service, 0) + seconds
        for classifier, counts in totals["unanswered"].items():
            self._unanswered[classifier].update(counts)
        self._predicted += totals["predicted"]

    def sums(self) -> Sums:
        seconds = dict(sorted(self._seconds.items()))
        return Sums(Cost.model_validate(self._costs), seconds, self._unanswered, self._predicted)
