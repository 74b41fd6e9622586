"""The work of an adversarial dataset: captions of fooling images, images of captions, features."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialInstruction,
    AdversarialResult,
    DatasetSeeds,
    GivenSeeds,
)
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.features import FeatureVector
from counterpose_gateway.methods.adversarial_dataset.items import sample_seed
from counterpose_gateway.records.items import LeasedGroup, LeasedItem, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.calls import own_cost
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.adversarial_images import fools
from counterpose_gateway.steps.classified_samples import SampleDraft, classify_samples, measure_label
from counterpose_gateway.steps.clip import embed_images, unit_vector
from counterpose_gateway.steps.generation import Asked, drawable, generate_images
from counterpose_gateway.steps.label_images import judge_of
from counterpose_gateway.steps.objectionable import drop_objectionable

ANSWERED_RIGHTLY = "answered-rightly"
"""The reason of a seed that is not captioned: it does not fool the classifiers."""


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Do the work of the leased items, which are of one phase and one label.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = AdversarialDatasetConfig.model_validate(group.config)
    attempt = OpenItems(group, services, record, store)
    phase = _told(group.items[0]).phase
    if phase == "reference":
        work = _embed(attempt)
    elif phase == "seed":
        work = _seed(attempt, config)
    else:
        work = _sample(attempt, config)
    await finish_group(attempt, group, work)


def _told(item: LeasedItem) -> AdversarialInstruction:
    return AdversarialInstruction.model_validate(item.instruction)


async def _embed(attempt: OpenItems) -> None:
    items = attempt.open
    embedded = await embed_images(attempt.calls, [item.source_image for item in items])
    for item, outcome in zip(items, embedded, strict=True):
        async with attempt.fail_items_on_error([item]):
            features = FeatureVector.of(unit_vector(outcome).tolist())
            await attempt.done(item, AdversarialResult(image=item.source_image, features=features))


async def _classified(
    attempt: OpenItems, config: AdversarialDatasetConfig, drafts: Sequence[SampleDraft]
) -> list[SampleDraft]:
    drafts = await measure_label(attempt.calls, drafts)
    judge = judge_of(config, config.request)
    return attempt.keep(await classify_samples(attempt.calls, drafts, judge, spare=attempt.is_last))


async def _seed(attempt: OpenItems, config: AdversarialDatasetConfig) -> None:
    """Classify real images, and caption those that fool the classifiers."""
    drafts = [SampleDraft(item, AdversarialResult(image=item.source_image)) for item in attempt.open]
    wanted: list[SampleDraft] = []
    for draft in await _classified(attempt, config, drafts):
        if _is_wanted(_with_features(draft), config):
            wanted.append(draft)
        else:
            await attempt.filtered(draft.item, ANSWERED_RIGHTLY, result=_with_features(draft))
    if not wanted:
        return
    # With the label: a captioner that can begins with it.
    asked = [CaptionItem(image=draft.image, label=draft.item.label) for draft in wanted]
    caption = attempt.calls.services.captioner.caption
    outcomes = await attempt.calls.ask("captioner", caption, CaptionRequest(items=asked))
    for draft, outcome in zip(wanted, outcomes, strict=True):
        async with attempt.fail_items_on_error([draft.item]):
            told = {"caption": outcome.unwrap().text}
            await attempt.done(draft.item, _with_features(draft).model_copy(update=told))


def _is_wanted(result: AdversarialResult, config: AdversarialDatasetConfig) -> bool:
    seeds = config.request.seeds
    return not (isinstance(seeds, DatasetSeeds) and seeds.mistaken) or fools(result, config.request)


async def _sample(attempt: OpenItems, config: AdversarialDatasetConfig) -> None:
    """Draw the images of one prompt and ask every classifier about them."""
    asked, are_given = list[Asked](), isinstance(config.request.seeds, GivenSeeds)
    for item in attempt.open:
        told = _told(item)
        prompt, seed = told.prompt or config.baselines[item.label], sample_seed(config, item, told)
        asked.append(Asked(item, prompt, seed, is_by_model=told.phase == "sample" and not are_given))
    asked = attempt.keep(drawable(asked, config.policy_words))
    drafts = [
        SampleDraft(
            each.item,
            AdversarialResult(
                image=each.image,
                prompt=each.asked.prompt,
                seed=each.asked.seed,
                served=each.served,
                cost=own_cost(each.cost),
            ),
        )
        for each in attempt.keep(await generate_images(attempt.calls, config.generation, asked))
    ]
    drafts = attempt.keep(await drop_objectionable(attempt.calls, drafts, config.objectionable))
    for draft in await _classified(attempt, config, drafts):
        is_compared = any(draft.result.failed.values()) if _is_sample(draft) else _has_reference(config)
        await attempt.done(draft.item, _with_features(draft) if is_compared else draft.result)


def _is_sample(draft: SampleDraft) -> bool:
    return _told(draft.item).phase == "sample"


def _has_reference(config: AdversarialDatasetConfig) -> bool:
    return config.request.reference is not None


def _with_features(draft: SampleDraft) -> AdversarialResult:
    assert isinstance(draft.result, AdversarialResult)  # made here
    if draft.features is None:
        return draft.result
    return draft.result.model_copy(update={"features": FeatureVector.of(draft.features.tolist())})
