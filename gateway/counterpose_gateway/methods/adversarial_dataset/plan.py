"""Plan an adversarial dataset: check what it names, then seeds, baseline and reference images."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from counterpose_core.adversarial_dataset.rounds import FIRST_ROUND
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialDatasetCreate,
    AdversarialInstruction,
    AdversarialPrompt,
    DatasetSeeds,
)
from counterpose_core.contract.datasets import Source
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.class_prompts import fill
from counterpose_gateway.methods.adversarial_dataset.items import (
    plan_images,
    plan_reference,
    plan_seeds,
    spread,
)
from counterpose_gateway.methods.adversarial_dataset.seeds import FoundSeeds, find_seeds
from counterpose_gateway.records.items import Plan, PlannedItem, numbered
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import named_dataset, require_quota
from counterpose_gateway.steps.classifiers import check_classifiers, common_classes
from counterpose_gateway.steps.examples import draw_examples
from counterpose_gateway.steps.label_images import check_mistakes, label_templates, shared_config
from counterpose_gateway.steps.parents import notes_on_parents


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
        examples = await draw_examples(baselines, found.pointers, shared["generation"], create.seed, context)
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
