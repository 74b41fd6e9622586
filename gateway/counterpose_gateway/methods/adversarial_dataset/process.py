"""The work of an adversarial dataset: captions of fooling images, images of captions, features."""

from __future__ import annotations

from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialInstruction,
    AdversarialResult,
    DatasetSeeds,
    GivenSeeds,
)
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.contract.features import FeatureVector
from counterpose_gateway.methods.adversarial_dataset.items import sample_seed
from counterpose_gateway.records.items import MAX_ATTEMPTS, LeasedGroup, LeasedItem, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group, own_cost
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.adversarial_images import fools
from counterpose_gateway.steps.classified_samples import SampleDraft, classify_samples, measure_label
from counterpose_gateway.steps.clip import embed_images, unit_vector
from counterpose_gateway.steps.generation import generate_images, refuse_malformed
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
    attempt = OpenItems(group, record, store)
    phase = _told(group.items[0]).phase
    if phase == "reference":
        work = _embed(attempt, services)
    elif phase == "seed":
        work = _seed(attempt, group, config, services)
    else:
        work = _sample(attempt, group, config, services)
    await finish_group(attempt, group, work)


def _told(item: LeasedItem) -> AdversarialInstruction:
    return AdversarialInstruction.model_validate(item.instruction)


async def _embed(attempt: OpenItems, services: Services) -> None:
    items = attempt.open
    embedded = await embed_images(attempt, [item.source_image for item in items], services)
    for item, outcome in zip(items, embedded, strict=True):
        async with attempt.fail_items_on_error([item]):
            features = FeatureVector.of(unit_vector(outcome).tolist())
            await attempt.done(item, AdversarialResult(image=item.source_image, features=features))


async def _seed(
    attempt: OpenItems, group: LeasedGroup, config: AdversarialDatasetConfig, services: Services
) -> None:
    """Classify real images, and caption those that fool the classifiers."""
    drafts = [SampleDraft(item, AdversarialResult(image=item.source_image)) for item in attempt.open]
    drafts = await measure_label(attempt, drafts, services)
    wanted: list[SampleDraft] = []
    for draft in await classify_samples(
        attempt, drafts, judge_of(config, config.request), services, spare=_is_last(group)
    ):
        if _is_wanted(_with_features(draft), config):
            wanted.append(draft)
        else:
            await attempt.filtered(draft.item, ANSWERED_RIGHTLY, result=_with_features(draft))
    if not wanted:
        return
    # With the label: a captioner that can begins with it.
    asked = [CaptionItem(image=draft.image, label=draft.item.label) for draft in wanted]
    response = await attempt.call("captioner", services.captioner.caption, CaptionRequest(items=asked))
    attempt.add_shared_cost(response.cost)
    for draft, outcome in zip(wanted, attempt.outcomes("captioner", response), strict=True):
        async with attempt.fail_items_on_error([draft.item]):
            caption = {"caption": outcome.unwrap().text}
            await attempt.done(draft.item, _with_features(draft).model_copy(update=caption))


def _is_wanted(result: AdversarialResult, config: AdversarialDatasetConfig) -> bool:
    seeds = config.request.seeds
    return not (isinstance(seeds, DatasetSeeds) and seeds.mistaken) or fools(result, config.request)


async def _sample(
    attempt: OpenItems, group: LeasedGroup, config: AdversarialDatasetConfig, services: Services
) -> None:
    """Draw the images of one prompt and ask every classifier about them."""
    asked, by_models = [], set[str]()
    for item in attempt.open:
        told = _told(item)
        prompt = told.prompt or config.baselines[item.label]
        if told.phase == "sample" and not isinstance(config.request.seeds, GivenSeeds):
            by_models.add(item.id)
            if await refuse_malformed(attempt, item, prompt):
                continue
        asked.append((item, GenerateItem(prompt=prompt, seed=sample_seed(config, item, told))))
    made = await generate_images(
        attempt,
        config.generation,
        asked,
        services,
        policy_words=config.policy_words,
        by_models=by_models,
    )
    drafts = [
        SampleDraft(
            each.item,
            AdversarialResult(
                image=each.image, prompt=each.asked.prompt, seed=each.asked.seed, cost=own_cost(each.cost)
            ),
        )
        for each in made
    ]
    drafts = await drop_objectionable(attempt, drafts, config.objectionable, services)
    drafts = await measure_label(attempt, drafts, services)
    for draft in await classify_samples(
        attempt, drafts, judge_of(config, config.request), services, spare=_is_last(group)
    ):
        is_compared = any(draft.result.failed.values()) if _is_sample(draft) else _has_reference(config)
        await attempt.done(draft.item, _with_features(draft) if is_compared else draft.result)


def _is_sample(draft: SampleDraft) -> bool:
    return _told(draft.item).phase == "sample"


def _has_reference(config: AdversarialDatasetConfig) -> bool:
    return config.request.reference is not None


def _is_last(group: LeasedGroup) -> bool:
    return all(item.attempt >= MAX_ATTEMPTS for item in group.items)


def _with_features(draft: SampleDraft) -> AdversarialResult:
    assert isinstance(draft.result, AdversarialResult)  # made here
    if draft.features is None:
        return draft.result
    return draft.result.model_copy(update={"features": FeatureVector.of(draft.features.tolist())})
