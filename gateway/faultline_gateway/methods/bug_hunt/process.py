"""The work of a bug hunt: images of a prompt with every classifier's answer, and captions of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline_core.bug_hunt.failures import failures
from faultline_core.contract.bug_hunts import BugHuntConfig, HuntInstruction, HuntResult
from faultline_core.contract.captioner import CaptionItem, CaptionRequest
from faultline_core.contract.editor import GenerateItem
from faultline_core.errors import FaultlineError
from faultline_core.images.clip_metrics import cosine
from faultline_core.text.class_prompts import object_caption
from faultline_gateway.methods.bug_hunt.samples import sample_seed
from faultline_gateway.runs.attempt import OpenItems, finish_group, own_cost, together
from faultline_gateway.runs.clip import embed_images, embed_texts, require_one_space, unit_vector
from faultline_gateway.runs.generation import generate_images
from faultline_gateway.runs.items import MAX_ATTEMPTS, LeasedGroup, LeasedItem, Recorder
from faultline_gateway.runs.objectionable import drop_objectionable
from faultline_gateway.runs.predictions import Answers, answered_pairs, classify_images
from faultline_gateway.runs.stores import Store
from faultline_gateway.services.ports import Services


@dataclass(frozen=True)
class SampleDraft:
    """A sample that was drawn, before any classifier saw it."""

    item: LeasedItem
    result: HuntResult

    @property
    def image(self) -> str:
        """The image."""
        return self.result.image


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Draw and classify the leased samples of one prompt, or caption the leased images.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = BugHuntConfig.model_validate(group.config)
    attempt = OpenItems(group, record, store)
    work = _caption(attempt, services) if _is_captions(group) else _sample(attempt, group, config, services)
    await finish_group(attempt, group, work)


def instruction_of(item: LeasedItem) -> HuntInstruction:
    """Return what the stage asks of an item."""
    return HuntInstruction.model_validate(item.instruction)


def _is_captions(group: LeasedGroup) -> bool:
    return all(item.kind == "caption" for item in group.items)


async def _caption(attempt: OpenItems, services: Services) -> None:
    items = attempt.open
    # With the label: a captioner that can begins with it.
    asked = [CaptionItem(image=item.source_image, label=item.label) for item in items]
    response = await attempt.call("captioner", services.captioner.caption, CaptionRequest(items=asked))
    attempt.add_shared_cost(response.cost)
    for item, outcome in zip(items, attempt.outcomes("captioner", response), strict=True):
        async with attempt.fail_items_on_error([item]):
            text = outcome.unwrap().text
            await attempt.done(item, HuntResult(image=item.source_image, caption=text))


async def _sample(attempt: OpenItems, group: LeasedGroup, config: BugHuntConfig, services: Services) -> None:
    asked = []
    for item in attempt.open:
        instruction = instruction_of(item)
        prompt = instruction.prompt or config.prompts[item.label]
        asked.append((item, GenerateItem(prompt=prompt, seed=sample_seed(config, item, instruction))))
    made = await generate_images(attempt, config.generation, asked, services)
    drafts = [
        SampleDraft(
            each.item,
            HuntResult(
                image=each.image, prompt=each.asked.prompt, seed=each.asked.seed, cost=own_cost(each.cost)
            ),
        )
        for each in made
    ]
    drafts = await drop_objectionable(attempt, drafts, config.objectionable, services)
    drafts = await _measure(attempt, drafts, services)
    is_last = all(item.attempt >= MAX_ATTEMPTS for item in group.items)
    await _classify(attempt, config, drafts, services, spare=is_last)


async def _measure(
    attempt: OpenItems, drafts: Sequence[SampleDraft], services: Services
) -> list[SampleDraft]:
    """Measure how much each image looks like its label; an image that CLIP cannot read goes on without.

    Raises:
        BackendError: the scorer failed as a whole.
    """
    if not drafts:
        return []
    captions = [object_caption(drafts[0].item.label)]
    embedded, (text,) = await together(
        [
            embed_images(attempt, [draft.image for draft in drafts], services),
            embed_texts(attempt, captions, services),
        ]
    )
    caption = unit_vector(text)
    measured: list[SampleDraft] = []
    for draft, outcome in zip(drafts, embedded, strict=True):
        similarity = None
        try:
            vector = unit_vector(outcome)
            require_one_space(vector, caption)
            similarity = float(cosine(vector, caption))
        except FaultlineError:
            # The classifier's answer is worth more than this check of it.
            similarity = None
        update = {"object_similarity": similarity}
        measured.append(SampleDraft(draft.item, draft.result.model_copy(update=update)))
    return measured


async def _classify(
    attempt: OpenItems,
    config: BugHuntConfig,
    drafts: Sequence[SampleDraft],
    services: Services,
    *,
    spare: bool,
) -> None:
    """Ask every classifier about every image; one that fails on an image is left out there."""
    if not drafts:
        return
    images = list(dict.fromkeys(draft.image for draft in drafts))
    specs = config.request.classifiers
    answers = await classify_images(attempt, specs, images, config.classes, services, spare=spare)
    for draft in drafts:
        async with attempt.fail_items_on_error([draft.item]):
            label = draft.item.label
            pairs, missing = answered_pairs(answers, draft.image, label, config.classes)
            failed = {spec: _fails(config, answers[spec], draft.image, label) for spec in pairs}
            update = {"predictions": pairs, "unanswered": missing, "failed": failed}
            await attempt.done(draft.item, draft.result.model_copy(update=update))


def _fails(config: BugHuntConfig, answers: Answers, image: str, label: str) -> bool:
    probabilities = np.asarray([answers[image].unwrap().probabilities], dtype=np.float64)
    request = config.request
    return bool(failures(request.criterion, probabilities, label, config.classes, request.parents)[0])
