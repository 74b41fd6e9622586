"""Where the captions of an adversarial dataset come from: images of a dataset, a hunt, or the caller."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from counterpose_core.adversarial_dataset.prompts import SeedPrompts, prompts_of
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetCreate,
    DatasetSeeds,
    GivenSeeds,
    HuntSeeds,
)
from counterpose_core.contract.bug_hunts import HuntItem
from counterpose_core.contract.datasets import Source
from counterpose_core.errors import InvalidRequest, NotFound, RunNotEnded
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.adversarial_dataset.items import spread
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import named_dataset
from counterpose_gateway.steps.classifiers import shown_classes

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

NO_CLASS = "label-is-no-class"


@dataclass
class FoundSeeds:
    """Images to caption, or prompts that are known already; and what was left out, by reason."""

    sources: list[Source] = field(default_factory=list)
    prompts: SeedPrompts = field(default_factory=lambda: SeedPrompts([]))
    dropped: Counter[str] = field(default_factory=Counter)
    pointers: dict[str, str] = field(default_factory=dict)
    """Where the request names each label whose prompts are known."""

    @property
    def labels(self) -> list[str]:
        """What they show, each label once, in order."""
        shown = [source.label for source in self.sources] or [each.label for each in self.prompts.prompts]
        return list(dict.fromkeys(shown))


async def find_seeds(
    request: AdversarialDatasetCreate, classes: Sequence[str], context: RunContext
) -> FoundSeeds:
    """Return what the request's captions are made from.

    Raises:
        UnknownDataset, NotFound: there is no such dataset or hunt.
        RunNotEnded: the hunt has not ended.
        InvalidRequest: nothing of a class of the classifiers is left.
    """
    match request.seeds:
        case DatasetSeeds() as seeds:
            return await asyncio.to_thread(_of_dataset, seeds, classes, context.ledger)
        case HuntSeeds() as seeds:
            captions = await asyncio.to_thread(_of_hunt, seeds, context.ledger)
            pointer = "/seeds/run"
        case seeds:
            captions = [(each.label, each.text) for each in seeds.captions]
            pointer = "/seeds/captions"
    known = [pair for pair in captions if pair[0] in set(classes)]
    prompts = prompts_of(known, classes, sentences=request.sentences, most=request.captions)
    if len(known) < len(captions):
        prompts.dropped[NO_CLASS] += len(captions) - len(known)
    if not prompts.prompts:
        why = ", ".join(f"{number} {reason}" for reason, number in prompts.dropped.items()) or "there is none"
        raise InvalidRequest(f"no caption can be generated from: {why}", pointer=pointer)
    given = request.seeds.captions if isinstance(request.seeds, GivenSeeds) else []
    pointers = {each.label: f"{pointer}/{place}/label" for place, each in reversed(list(enumerate(given)))}
    labels = {each.label: pointers.get(each.label, pointer) for each in prompts.prompts}
    return FoundSeeds(prompts=prompts, dropped=prompts.dropped, pointers=labels)


def _of_dataset(seeds: DatasetSeeds, classes: Sequence[str], ledger: Ledger) -> FoundSeeds:
    named_dataset(seeds.dataset, "/seeds/dataset", ledger)
    listed, known = ledger.datasets.sources(seeds.dataset), set(classes)
    usable = [source for source in listed if source.label in known]
    if not usable:
        raise InvalidRequest(
            f"no image of the dataset {seeds.dataset!r} shows a class of the classifiers; "
            f"they have {shown_classes(classes)}",
            pointer="/seeds/dataset",
        )
    dropped = Counter({NO_CLASS: len(listed) - len(usable)}) if len(usable) < len(listed) else Counter[str]()
    return FoundSeeds(sources=spread(usable, seeds.images), dropped=dropped)


def _of_hunt(seeds: HuntSeeds, ledger: Ledger) -> list[tuple[str, str]]:
    try:
        run = ledger.runs.get(seeds.run, "bug-hunt")
    except NotFound as error:
        error.pointer = "/seeds/run"
        raise
    if run.state not in FINAL_RUN_STATES:
        raise RunNotEnded(f"the hunt {run.id!r} has not ended yet; wait for it", pointer="/seeds/run")
    found = list(dict.fromkeys(_measured(ledger.items.of(run.id, HuntItem))))
    if not found:
        raise InvalidRequest(
            f"the hunt {run.id!r} measured no description on held-out images; nothing can be generated",
            pointer="/seeds/run",
        )
    return found


def _measured(items: Iterator[HuntItem]) -> Iterator[tuple[str, str]]:
    for item in items:
        told = item.instruction
        if told is not None and told.phase == "held-out" and told.hypothesis is not None and told.prompt:
            yield item.label, told.prompt
