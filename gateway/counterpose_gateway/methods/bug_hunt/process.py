"""The work of a bug hunt: images of a prompt with every classifier's answer, captions, combined sentences."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence

from counterpose_core.contract.bug_hunts import PHOTOGRAPHS_PHASE, BugHuntConfig, HuntInstruction, HuntResult
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_gateway.methods.bug_hunt.clock import OUT_OF_TIME, now
from counterpose_gateway.methods.bug_hunt.clustering import cluster
from counterpose_gateway.methods.bug_hunt.combining import combine
from counterpose_gateway.methods.bug_hunt.samples import sample_seed
from counterpose_gateway.methods.bug_hunt.varied import edited
from counterpose_gateway.records.items import LeasedGroup, LeasedItem, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.calls import own_cost
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.classified_samples import SampleDraft, classify_samples, measure_label
from counterpose_gateway.steps.generation import Asked, drawable, generate_images
from counterpose_gateway.steps.label_images import judge_of
from counterpose_gateway.steps.objectionable import drop_objectionable


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Draw and classify the leased samples of one prompt, caption the leased images, or combine sentences.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = BugHuntConfig.model_validate(group.config)
    attempt = OpenItems(group, services, record, store)
    await finish_group(attempt, group, _work(attempt, group, config))


def _work(attempt: OpenItems, group: LeasedGroup, config: BugHuntConfig) -> Coroutine[None, None, None]:
    """Groups hold items of one kind."""
    match group.items[0].kind:
        case "caption":
            return _caption(attempt, config)
        case "clustering" | "combination":
            return _share(attempt, config)
        case _ if instruction_of(group.items[0]).phase == PHOTOGRAPHS_PHASE:
            return _classify_photographs(attempt, config)
        case _:
            return _sample(attempt, config)


def instruction_of(item: LeasedItem) -> HuntInstruction:
    """Return what the stage asks of an item."""
    return HuntInstruction.model_validate(item.instruction)


async def _share(attempt: OpenItems, config: BugHuntConfig) -> None:
    """Find what many failures share: their clusters, or the sentences of one."""
    for item in attempt.open:
        async with attempt.fail_items_on_error([item]):
            told = instruction_of(item)
            if item.kind == "clustering":
                result = await cluster(attempt.calls, item, told)
            else:
                result = await combine(attempt.calls, item, told, config.request.sentences)
            await attempt.done(item, result)


async def _caption(attempt: OpenItems, config: BugHuntConfig) -> None:
    items, began, calls = attempt.open, now(), attempt.calls
    # With the label: a captioner that can begins with it.
    asked = [
        CaptionItem(image=item.source_image, label=item.label, prefix=instruction_of(item).prompt)
        for item in items
    ]
    request, texts = CaptionRequest(items=asked), dict[str, str]()
    outcomes = await calls.ask("captioner", calls.services.captioner.caption, request)
    for item, outcome in zip(items, outcomes, strict=True):
        async with attempt.fail_items_on_error([item]):
            texts[item.id] = outcome.unwrap().text
    told = [item for item in items if item.id in texts]
    to_edit = [(item, texts[item.id]) for item in told if instruction_of(item).edit]
    edits = await edited(calls, to_edit, config.request.seed)
    for item in told:
        result = HuntResult(
            image=item.source_image,
            caption=texts[item.id],
            edited=edits.get(item.id, []),
            began_at=began,
            ended_at=now(),
        )
        await attempt.done(item, result)


def _is_by_model(instruction: HuntInstruction, prompt: str, config: BugHuntConfig) -> bool:
    """Whether captioner or language model wrote a prompt: not the user's, nor that of a label alone."""
    is_users = instruction.source == "user" or instruction.component is not None
    return not is_users and prompt not in config.prompts.values()


async def _classify_photographs(attempt: OpenItems, config: BugHuntConfig) -> None:
    drafts = [SampleDraft(item, HuntResult(image=item.source_image)) for item in attempt.open]
    for draft in await _classified(attempt, config, drafts, spare=False):
        await attempt.done(draft.item, draft.result)


async def _classified(
    attempt: OpenItems, config: BugHuntConfig, drafts: Sequence[SampleDraft], *, spare: bool
) -> list[SampleDraft]:
    drafts = await measure_label(attempt.calls, drafts)
    judge = judge_of(config, config.request)
    return attempt.keep(await classify_samples(attempt.calls, drafts, judge, spare=spare))


async def _sample(attempt: OpenItems, config: BugHuntConfig) -> None:
    asked, began = list[Asked](), now()
    for item in attempt.open:
        instruction = instruction_of(item)
        if instruction.until is not None and began > instruction.until:
            await attempt.filtered(item, OUT_OF_TIME, "the hunt's minutes were over before its turn came")
            continue
        prompt = instruction.prompt or config.prompts[item.label]
        seed = sample_seed(config, item, instruction)
        asked.append(Asked(item, prompt, seed, is_by_model=_is_by_model(instruction, prompt, config)))
    asked = attempt.keep(drawable(asked, config.policy_words))
    drafts = [
        SampleDraft(
            each.item,
            HuntResult(
                image=each.image,
                prompt=each.asked.prompt,
                seed=each.asked.seed,
                served=each.served,
                cost=own_cost(each.cost),
                began_at=began,
            ),
        )
        for each in attempt.keep(await generate_images(attempt.calls, config.generation, asked))
    ]
    drafts = attempt.keep(await drop_objectionable(attempt.calls, drafts, config.objectionable))
    for draft in await _classified(attempt, config, drafts, spare=attempt.is_last):
        await attempt.done(draft.item, draft.result.model_copy(update={"ended_at": now()}))
