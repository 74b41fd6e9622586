"""Plan an adversarial dataset: check what it names, then seeds, baseline and reference images.

The rounds of an adversarial dataset: more images of the captions that have too few failures yet.

Where the captions of an adversarial dataset come from: images of a dataset, a hunt, or the caller.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from counterpose_core.adversarial_dataset.prompts import SeedPrompts, prompts_of
from counterpose_core.adversarial_dataset.rounds import FIRST_ROUND, CaptionProgress, next_round
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialDatasetCreate,
    AdversarialInstruction,
    AdversarialItem,
    AdversarialPrompt,
    DatasetSeeds,
    GivenSeeds,
    HuntSeeds,
)
from counterpose_core.contract.bug_hunts import HuntItem
from counterpose_core.contract.datasets import Source
from counterpose_core.contract.runs import Run, RunItem
from counterpose_core.errors import InvalidRequest, NotFound, RunNotEnded
from counterpose_core.text.class_prompts import fill
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.adversarial_dataset.items import (
    RecordedDataset,
    plan_images,
    plan_reference,
    plan_seeds,
    spread,
)
from counterpose_gateway.records.items import Plan, PlannedItem, numbered
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.stages import StagePlan
from counterpose_gateway.runs.submission import named_dataset, require_quota
from counterpose_gateway.steps.classifiers import check_classifiers, common_classes, shown_classes
from counterpose_gateway.steps.examples import draw_examples, examples_of
from counterpose_gateway.steps.label_images import check_mistakes, label_templates, shared_config
from counterpose_gateway.steps.parents import notes_on_parents

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


async def plan(create: AdversarialDatasetCreate, context: RunContext) -> Plan:
    """Resolve the request and plan its first stage.

    Raises:
        UnknownDataset, NotFound: there is no such dataset or hunt.
        RunNotEnded: the hunt has not ended.
        InvalidRequest: nothing can be captioned or generated from; the images do not suffice for the
            baseline; the target is no class; the generator does not know a label's words.
        QuotaExceeded: it might have more items than a run may.
        UnknownModel, ClassMapMismatch, PromptTooLong: as of other runs.
    """
    suite = context.suite
    mapped = create.label_map
    classes = await common_classes(create.classifiers, create.classes, context.services, label_map=mapped)
    found = await find_seeds(create, classes, context)
    reference = await asyncio.to_thread(_reference, create, context)
    labels = found.labels
    _check_budget(create, len(labels))
    check_mistakes(create.criterion, classes, labels)
    require_quota(create.images + len(found.sources) + len(reference), context, "/images")
    templates = label_templates(create, labels, classes, suite)
    baselines = {label: fill(template, label) for label, template in templates.items()}
    shared = shared_config(create, classes, suite, context.policy)
    # Real images of a label need no example, and of a thousand labels none could be drawn at once.
    examples = {source.label: source.image for source in reversed(found.sources)}
    if not examples:
        drawn = examples_of(baselines, found.pointers, create.seed)
        examples = await draw_examples(drawn, shared["generation"], context)
    example = examples[labels[0]]
    await check_classifiers(create.classifiers, classes, example, context.services, label_map=mapped)
    config = AdversarialDatasetConfig(
        request=create,
        **shared,
        labels=labels,
        baselines=baselines,
        examples=examples,
        prompts=[AdversarialPrompt.model_validate(vars(each)) for each in found.prompts.prompts],
        dropped=dict(found.dropped),
        notes=[*_notes(create), *notes_on_parents(create.criterion, labels, shared["parents"])],
    )
    seeds = create.seeds.dataset if isinstance(create.seeds, DatasetSeeds) else ""
    return Plan(seeds, config, list(numbered(_first_stage(config, found, reference))))


def _first_stage(
    config: AdversarialDatasetConfig, found: FoundSeeds, reference: Sequence[Source]
) -> Iterator[PlannedItem]:
    yield from plan_seeds(found.sources)
    for label in config.labels:
        told = AdversarialInstruction(phase="baseline", prompt=config.baselines[label])
        yield from plan_images(config, label, told, range(config.request.baseline))
    yield from plan_reference(reference)


def _reference(create: AdversarialDatasetCreate, context: RunContext) -> list[Source]:
    if create.reference is None:
        return []
    named_dataset(create.reference, "/reference", context.ledger)
    return spread(context.ledger.datasets.sources(create.reference), create.reference_images)


def _check_budget(create: AdversarialDatasetCreate, labels: int) -> None:
    least = labels * create.baseline + FIRST_ROUND
    if create.images < least:
        raise InvalidRequest(
            f"{create.images} images are too few: the baselines of {labels} labels take "
            f"{labels * create.baseline}, and a caption at least {FIRST_ROUND}; allow {least}, or lower "
            "baseline",
            pointer="/images",
        )


def _notes(create: AdversarialDatasetCreate) -> list[str]:
    notes = [
        "the images are chosen because they fool these classifiers: their failure rate on them says nothing; "
        "the rate on the first images of every caption does",
        "the images show what the generator draws, which may be unlike what a camera sees",
    ]
    if create.near_duplicates is None:
        notes.append("near-duplicates are not removed")
    return notes


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
