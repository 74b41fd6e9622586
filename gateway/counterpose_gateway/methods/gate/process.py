"""The work of a gate: candidates and incumbent answer both images of every pair."""

from __future__ import annotations

from collections.abc import Mapping

from counterpose_core.contract.gates import GateConfig, GateInstruction, GateResult
from counterpose_core.tasks import Task, Truth, task_of
from counterpose_gateway.records.items import LeasedGroup, LeasedItem, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.predictions import Answers, classify_images, scored_answers

_PER_CALL = 32


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Classify the leased pairs.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = GateConfig.model_validate(group.config)
    attempt = OpenItems(group, services, record, store)
    await finish_group(attempt, group, _classify(attempt, config))


async def _classify(attempt: OpenItems, config: GateConfig) -> None:
    pairs = {item.id: GateInstruction.model_validate(item.instruction) for item in attempt.open}
    seen = [image for item in attempt.open for image in (_before(item, pairs[item.id]), pairs[item.id].image)]
    images = list(dict.fromkeys(seen))
    specs = list(dict.fromkeys([config.incumbent, *config.request.classifiers]))
    answers: dict[str, Answers] = {spec: {} for spec in specs}
    for first in range(0, len(images), _PER_CALL):
        some = images[first : first + _PER_CALL]
        found = await classify_images(attempt.calls, specs, some, config.classes, spare=attempt.is_last)
        for spec in specs:
            answers[spec] |= found[spec]
    task = task_of(config.task, config.classes)
    for item in attempt.open:
        async with attempt.fail_items_on_error([item]):
            await attempt.done(item, _result(answers, item, pairs[item.id], task))


def _result(
    answers: Mapping[str, Answers], item: LeasedItem, pair: GateInstruction, task: Task
) -> GateResult:
    known = dict(answers)
    after, missing = scored_answers(known, pair.image, Truth.of(item), task)
    before, also = scored_answers(known, _before(item, pair), Truth.of(item), task)
    return GateResult(predictions=after, original_predictions=before, unanswered=also | missing)


def _before(item: LeasedItem, pair: GateInstruction) -> str:
    return pair.control or item.source_image
