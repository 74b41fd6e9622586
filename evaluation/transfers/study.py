"""The runs of one classifier: its dataset, the transfer, and images that nothing has chosen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from counterpose_core.adversarial_dataset.rounds import FIRST_ROUND
from counterpose_core.blobs import cache_key
from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import AdversarialDatasetCreate, AdversarialItem
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.runs import Run
from counterpose_core.contract.transfers import TransferCreate, TransferItem, TransferSummary
from counterpose_gateway.methods.adversarial_dataset.method import ADVERSARIAL_DATASET
from counterpose_gateway.methods.adversarial_dataset.summary import summarize as summarize_dataset
from counterpose_gateway.methods.transfer.method import TRANSFER
from counterpose_gateway.methods.transfer.summary import summarize as summarize_transfer
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.method import AnyMethod
from counterpose_miniature.training.stage import write_atomically
from evaluation.in_process import EndedRun, HeldLedger, work_off

from .roster import SOURCES, columns_of, folder_of
from .scenes import CLASSES, USUAL, WILD

_ANY_SEED = 160
"""Wild scenes whose captions are used for a classifier that mistakes none."""


@dataclass(frozen=True)
class Row:
    """What was run for one classifier; no transfer where nothing fools it."""

    source: str
    mistaken: EndedRun
    dataset: EndedRun
    transfer: EndedRun | None
    unchosen: EndedRun

    @property
    def any_seed(self) -> bool:
        """Whether its captions are of seeds that it answers rightly, too."""
        return self.mistaken is not self.dataset

    @property
    def items(self) -> list[AdversarialItem]:
        """The items of the dataset."""
        return [item for item in self.dataset.items if isinstance(item, AdversarialItem)]

    @property
    def transfer_items(self) -> list[TransferItem]:
        """The items of the transfer."""
        found = [] if self.transfer is None else self.transfer.items
        return [item for item in found if isinstance(item, TransferItem)]


@dataclass(frozen=True)
class Study:
    """The runs by one request; ``folder`` keeps those that have ended.

    ``context``: what methods plan and work with, over a given ledger; None runs nothing.
    """

    shared: Mapping[str, Any]
    datasets: Mapping[str, Sequence[Source]]
    models: Path
    folder: Path
    context: Callable[[HeldLedger], RunContext] | None

    def dataset(self, source: str, *, mistaken: bool) -> EndedRun | None:
        """The dataset of a classifier; None if it is not done and nothing is run."""
        looked_at = len(self.datasets[WILD]) if mistaken else _ANY_SEED
        seeds = {"kind": "dataset", "dataset": WILD, "images": looked_at, "mistaken": mistaken}
        body = {**self.shared, "classifiers": [source], "seeds": seeds}
        # Usual scenes and images of the labels alone are the same for all: their features are needed once.
        if source == SOURCES[0]:
            body["reference"] = USUAL
        create = AdversarialDatasetCreate.model_validate(body)
        return self._ended(ADVERSARIAL_DATASET, create, [source], AdversarialItem)

    def row(self, source: str) -> Row | None:
        """Every run of a classifier; None if one is not done and nothing is run."""
        mistaken = self.dataset(source, mistaken=True)
        found = mistaken
        if mistaken is not None and not summary_of(mistaken).captions:
            found = self.dataset(source, mistaken=False)
        if mistaken is None or found is None:
            return None
        summary = summary_of(found)
        transfer = self._transfer(found) if summary.kept else None
        unchosen = self._unchosen(summary)
        if (transfer is None and summary.kept) or unchosen is None:
            return None
        return Row(source, mistaken, found, transfer, unchosen)

    @property
    def columns(self) -> list[str]:
        """Who is shown the images."""
        return columns_of(self.models)

    def _transfer(self, dataset: EndedRun) -> EndedRun | None:
        body = {"source": dataset.run.id, "classifiers": self.columns, "seed": self.shared["seed"]}
        create = TransferCreate.model_validate(body)
        return self._ended(TRANSFER, create, self.columns, TransferItem, (dataset,))

    def _unchosen(self, summary: AdversarialDatasetSummary) -> EndedRun | None:
        """The first images of every caption, which are the dataset's own, answered by every classifier."""
        captions = [{"label": each.label, "text": each.prompt} for each in summary.captions]
        body = {
            **self.shared,
            "classifiers": self.columns,
            "seeds": {"kind": "captions", "captions": captions},
            "samples": FIRST_ROUND,
            "most_kept": FIRST_ROUND,
            "images": FIRST_ROUND * len(captions) + self.shared["baseline"] * len(CLASSES),
        }
        create = AdversarialDatasetCreate.model_validate(body)
        return self._ended(ADVERSARIAL_DATASET, create, self.columns, AdversarialItem)

    def _ended(
        self,
        method: AnyMethod,
        create: BaseModel,
        specs: Sequence[str],
        item: type[AdversarialItem] | type[TransferItem],
        before: Sequence[EndedRun] = (),
    ) -> EndedRun | None:
        folders = [folder_of(spec, self.models) for spec in specs]
        if not all(folder.exists() for folder in folders):
            return None
        weights = [_digest(folder) for folder in folders]
        request = create.model_dump(mode="json", exclude_unset=True)
        images = {name: cache_key(ids=[each.id for each in listed]) for name, listed in self.datasets.items()}
        key = cache_key(kind=method.kind, request=request, weights=weights, images=images)
        path = self.folder / f"{method.kind}-{key[:16]}.jsonl"
        if path.exists():
            return _read(path, item)
        if self.context is None:
            return None
        ledger = HeldLedger(self.datasets, {each.run.id: each for each in before})
        ended = work_off(method, create, self.context(ledger))
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [ended.run.model_dump_json(), *(each.model_dump_json() for each in ended.items)]
        write_atomically(path, "\n".join(lines).encode())
        return ended


def summary_of(ended: EndedRun) -> AdversarialDatasetSummary:
    """The product's summary of a dataset."""
    return summarize_dataset(ended.run, (item for item in ended.items if isinstance(item, AdversarialItem)))


def transfer_summary_of(ended: EndedRun) -> TransferSummary:
    """The product's summary of a transfer."""
    return summarize_transfer(ended.run, (item for item in ended.items if isinstance(item, TransferItem)))


def _digest(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def _read(path: Path, item: type[AdversarialItem] | type[TransferItem]) -> EndedRun:
    first, *lines = path.read_bytes().splitlines()
    return EndedRun(Run.model_validate_json(first), [item.model_validate_json(line) for line in lines])
