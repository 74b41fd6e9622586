"""The work of a bug hunt: images of a prompt with every classifier's answer, captions, combined sentences."""

from __future__ import annotations

from collections.abc import Coroutine

from counterpose_core.contract.bug_hunts import PHOTOGRAPHS_PHASE, BugHuntConfig, HuntInstruction, HuntResult
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.editor import GenerateItem
from counterpose_gateway.methods.bug_hunt.clock import OUT_OF_TIME, now
from counterpose_gateway.methods.bug_hunt.clustering import cluster
from counterpose_gateway.methods.bug_hunt.combining import combine
from counterpose_gateway.methods.bug_hunt.photographs import classify_photographs
from counterpose_gateway.methods.bug_hunt.samples import sample_seed
from counterpose_gateway.methods.bug_hunt.varied import edited
from counterpose_gateway.records.items import MAX_ATTEMPTS, LeasedGroup, LeasedItem, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group, own_cost
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.classified_samples import SampleDraft, classify_samples, measure_label
from counterpose_gateway.steps.generation import generate_images, refuse_malformed
from counterpose_gateway.steps.label_images import judge_of
from counterpose_gateway.steps.objectionable import drop_objectionable


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Draw and classify the leased samples of one prompt, caption the leased images, or combine sentences.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = BugHuntConfig.model_validate(group.config)
    attempt = OpenItems(group, record, store)
    await finish_group(attempt, group, _work(attempt, group, config, services))


def _work(
    attempt: OpenItems, group: LeasedGroup, config: BugHuntConfig, services: Services
) -> Coroutine[None, None, None]:
    """Groups hold items of one kind."""
    match group.items[0].kind:
        case "caption":
            return _caption(attempt, config, services)
        case "clustering":
            return _cluster(attempt, services)
        case "combination":
            return _combine(attempt, config, services)
        case _ if instruction_of(group.items[0]).phase == PHOTOGRAPHS_PHASE:
            return classify_photographs(attempt, config, services)
        case _:
            return _sample(attempt, group, config, services)


def instruction_of(item: LeasedItem) -> HuntInstruction:
    """Return what the stage asks of an item."""
    return HuntInstruction.model_validate(item.instruction)


async def _cluster(attempt: OpenItems, services: Services) -> None:
    for item in attempt.open:
        async with attempt.fail_items_on_error([item]):
            await cluster(attempt, item, instruction_of(item), services)


async def _combine(attempt: OpenItems, config: BugHuntConfig, services: Services) -> None:
    for item in attempt.open:
        async with attempt.fail_items_on_error([item]):
            await combine(attempt, item, instruction_of(item), config.request.sentences, services)


async def _caption(attempt: OpenItems, config: BugHuntConfig, services: Services) -> None:
    items, began = attempt.open, now()
    # With the label: a captioner that can begins with it.
    asked = [
        CaptionItem(image=item.source_image, label=item.label, prefix=instruction_of(item).prompt)
        for item in items
    ]
    response = await attempt.call("captioner", services.captioner.caption, CaptionRequest(items=asked))
    attempt.add_shared_cost(response.cost)
    texts: dict[str, str] = {}
    for item, outcome in zip(items, attempt.outcomes("captioner", response), strict=True):
        async with attempt.fail_items_on_error([item]):
            texts[item.id] = outcome.unwrap().text
    told = [item for item in items if item.id in texts]
    edits = await edited(
        attempt,
        [(item, texts[item.id]) for item in told if instruction_of(item).edit],
        config.request.seed,
        services,
    )
    for item in told:
        result = HuntResult(
            image=item.source_image,
            caption=texts[item.id],
            edited=edits.get(item.id, []),
            began_at=began,
            ended_at=now(),
        )
        await attempt.done(item, result)


def _is_by_models(instruction: HuntInstruction, prompt: str, config: BugHuntConfig) -> bool:
    """Whether captioner or language model wrote a prompt: not the user's, nor that of a label alone."""
    is_users = instruction.source == "user" or instruction.component is not None
    return not is_users and prompt not in config.prompts.values()


async def _sample(attempt: OpenItems, group: LeasedGroup, config: BugHuntConfig, services: Services) -> None:
    asked, began, by_models = [], now(), set[str]()
    for item in attempt.open:
        instruction = instruction_of(item)
        if instruction.until is not None and began > instruction.until:
            await attempt.filtered(item, OUT_OF_TIME, "the hunt's minutes were over before its turn came")
            continue
        prompt = instruction.prompt or config.prompts[item.label]
        if _is_by_models(instruction, prompt, config):
            by_models.add(item.id)
            if await refuse_malformed(attempt, item, prompt):
                continue
        asked.append((item, GenerateItem(prompt=prompt, seed=sample_seed(config, item, instruction))))
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
            HuntResult(
                image=each.image,
                prompt=each.asked.prompt,
                seed=each.asked.seed,
                cost=own_cost(each.cost),
                began_at=began,
            ),
        )
        for each in made
    ]
    drafts = await drop_objectionable(attempt, drafts, config.objectionable, services)
    drafts = await measure_label(attempt, drafts, services)
    judge = judge_of(config, config.request)
    is_last = all(item.attempt >= MAX_ATTEMPTS for item in group.items)
    for draft in await classify_samples(attempt, drafts, judge, services, spare=is_last):
        await attempt.done(draft.item, draft.result.model_copy(update={"ended_at": now()}))
