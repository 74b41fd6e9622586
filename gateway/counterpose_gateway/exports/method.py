"""The export of a run, for every method whose images form a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from counterpose_core.contract.runs import RunItem
from counterpose_gateway.exports.card import Card
from counterpose_gateway.exports.export import Export, ExportLayout, write_export
from counterpose_gateway.exports.records import Record
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.method import CreateT, Method, ViewT
from counterpose_gateway.runs.summaries import summary_of

ItemT = TypeVar("ItemT", bound=RunItem[Any])
SummaryT = TypeVar("SummaryT", bound=BaseModel)


@dataclass(frozen=True)
class ExportChoice:
    """The images to export in addition to the kept ones.

    ``dropped`` adds those that a filter dropped, ``found`` those that were retrieved or provided.
    """

    dropped: bool = False
    found: bool = False


class ExportingMethod(Method[CreateT, ItemT, SummaryT, ViewT], Protocol):
    """A method whose images can be exported.

    card, records = method.export(summary, items, ExportChoice(dropped=True))
    """

    def export(
        self, summary: SummaryT, items: Iterable[ItemT], choice: ExportChoice
    ) -> tuple[Card, Iterator[Record]]:
        """Return the dataset card of a run and a record for each image of the choice."""
        ...


def export_run(
    method: ExportingMethod[Any, Any, Any, Any],
    run_id: str,
    view: Any,
    choice: ExportChoice,
    layout: ExportLayout,
    context: RunContext,
    target: Path,
) -> Export:
    """Write the images of a run into the new folder ``target``.

    Args:
        method: The method of the run.
        run_id: The run.
        view: The reader's view of the summary, whose thresholds decide which images were kept.
        choice: The images to export in addition to the kept ones.
        layout: The layout of the folder.
        context: The stores of the run's items and images.
        target: The folder, which must not exist or be empty.

    Raises:
        NotFound: the run does not exist.
        DatasetEmpty: the run has no image to export.
        StorageError: an image is missing or damaged, or the disk is full.
    """
    summary = summary_of(method, run_id, view, context)
    card, records = method.export(summary, context.ledger.items_of(run_id, method.item), choice)
    return write_export(
        records, target, layout=layout, store=context.store, card=card, credentials=context.credentials
    )
