"""The rounds of an adversarial dataset: more images of the captions that have too few failures yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from counterpose_core.adversarial_dataset.rounds import CaptionProgress, next_round
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialInstruction,
    AdversarialItem,
)
from counterpose_core.contract.runs import Run, RunItem
from counterpose_gateway.methods.adversarial_dataset.items import plan_images
from counterpose_gateway.methods.adversarial_dataset.recorded import RecordedDataset
from counterpose_gateway.records.items import PlannedItem, numbered
from counterpose_gateway.runs.stages import StagePlan


def next_stage(run: Run, results: Iterable[RunItem[Any]]) -> StagePlan | None:
    """Plan the next round, from what is recorded; None once no caption needs more images."""
    config = AdversarialDatasetConfig.model_validate(run.resolved_config)
    items = (item for item in results if isinstance(item, AdversarialItem))
    recorded = RecordedDataset.of(config, items)
    progress = progress_of(recorded)
    spent = len(recorded.of_phase("baseline")) + sum(each.made for each in progress)
    request = config.request
    sizes = next_round(
        progress, samples=request.samples, most_kept=request.most_kept, images=request.images - spent
    )
    return StagePlan(numbered(_planned(recorded, progress, sizes))) if any(sizes) else None


def progress_of(recorded: RecordedDataset) -> list[CaptionProgress]:
    """Return how far each caption is, in order."""
    kept = Counter(
        item.instruction.caption for item in recorded.selection.kept if item.instruction is not None
    )
    request, found = recorded.config.request, list[CaptionProgress]()
    for number, _ in enumerate(recorded.prompts.prompts, start=1):
        items = recorded.by_caption.get(number, [])
        # Words that the generator does not know fail for every image: more of them would, too.
        is_hopeless = bool(items) and all(item.result is None for item in items)
        found.append(CaptionProgress(len(items), request.most_kept if is_hopeless else kept[number]))
    return found


def _planned(
    recorded: RecordedDataset, progress: Sequence[CaptionProgress], sizes: Sequence[int]
) -> Iterator[PlannedItem]:
    prompts = recorded.prompts.prompts
    for number, (prompt, each, size) in enumerate(zip(prompts, progress, sizes, strict=True), start=1):
        told = AdversarialInstruction(phase="sample", prompt=prompt.text, caption=number, seeds=prompt.seeds)
        yield from plan_images(recorded.config, prompt.label, told, range(each.made, each.made + size))
