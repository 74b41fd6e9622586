"""The items that the report of a large run shows: few hundred are read, whatever the run's size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from counterpose_core.contract.findings import Finding
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.statistics.coded import Ints
from counterpose_core.stress_test.item_counts import CONTROLS
from counterpose_gateway.methods.stress_test.columns import ItemColumns, columns_of, read_columns
from counterpose_gateway.methods.stress_test.observations.observed_items import SourceControls
from counterpose_gateway.methods.stress_test.report.findings import SHOWN_FINDINGS, findings_of, groups_of
from counterpose_gateway.methods.stress_test.report.gallery import HARDEST, named_items
from counterpose_gateway.methods.stress_test.thresholds import JudgingAgain
from counterpose_gateway.runs.context import ItemsOfRun
from counterpose_gateway.steps.objectionable import OBJECTIONABLE
from counterpose_gateway.summaries.columns import NONE

MOST_READ = 10_000
"""Of a run of more items, only those are read that the report may show."""

_PAIRS_READ = 200
_DRAWN = 1000


@dataclass(frozen=True)
class ShownItems:
    """The items that may be shown, the findings of all items, and the number of kept edits."""

    items: Sequence[Item]
    findings: Sequence[Finding]
    kept: int


def shown_items(
    summary: StressTestSummary, run: Run, items: ItemsOfRun[Item], judging: JudgingAgain | None = None
) -> ShownItems:
    """Read what the report of a large run shows.

    These are the first pairs of the shown findings, the items that tables name, the hardest edits and the
    controls of these, and random ones of the others and of the stopped ones. ``judging`` judges them by other
    thresholds than the run's.
    """
    if judging is None:
        columns = read_columns(run, items.ledger, items.columns)
    else:
        columns = columns_of(judging.items(items), groups_of(summary))
    findings = findings_of(summary, columns)
    edits = columns.of("kind", "edit") & columns.with_result
    kept = np.flatnonzero(edits & columns.done)
    stopped = edits & columns.of("state", "filtered") & ~columns.of("reason", OBJECTIONABLE)
    generator = np.random.default_rng(summary.seed)
    hardest = _hardest(columns, kept, HARDEST + len(summary.models) * SHOWN_FINDINGS)
    own = {found.example_item for found in summary.interventions}
    examples = [at for at, name in enumerate(columns.ids) if name in own]
    chosen = [
        hardest,
        _controls(columns, [*hardest.tolist(), *examples]),
        _drawn(kept, generator),
        _drawn(np.flatnonzero(stopped), generator),
    ]
    ids = {columns.ids[at] for places in chosen for at in places.tolist()}
    ids.update(_named(summary, findings))
    named = items.ledger.items.named(run.id, Item, sorted(ids))
    shown = named if judging is None else list(judging.items(named))
    return ShownItems(shown, findings, len(kept))


def _hardest(columns: ItemColumns, at: Ints, number: int) -> Ints:
    """The edits that lower p(true class) of some classifier most."""
    changes = [answers.score_after[at] - answers.score_before[at] for answers in columns.answers.values()]
    if not changes or not len(at):
        return at[:0]
    worst = np.nan_to_num(np.fmin.reduce(changes), nan=0.0)
    return at[np.argsort(worst, kind="stable")[:number]]


def _controls(columns: ItemColumns, at: Sequence[int]) -> Ints:
    """The controls of the sources of these items, one of which may be on the first screen."""
    done = columns.done & columns.with_result
    places = (np.flatnonzero(columns.of("kind", kind) & done) for kind in CONTROLS)
    found = SourceControls.of(columns, *places).at[columns.source[at]]
    return np.unique(found[found != NONE])


def _drawn(at: Ints, generator: np.random.Generator) -> Ints:
    return at if len(at) <= _DRAWN else generator.choice(at, _DRAWN, replace=False)


def _named(summary: StressTestSummary, findings: Sequence[Finding]) -> Iterator[str]:
    yield from named_items(summary)
    yield from (insight.example_item for insight in summary.insights)
    yield from (found.example_item for found in summary.interventions)
    for finding in findings[:SHOWN_FINDINGS]:
        for pair in finding.pairs[:_PAIRS_READ]:
            yield pair.edit
            if pair.control is not None:
                yield pair.control
