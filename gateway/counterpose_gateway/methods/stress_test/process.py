"""The stress test: LANCE's Algorithm 1, one source at a time, from caption to recorded counterfactuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_gateway.methods.stress_test.screen.attempt import Attempt
from counterpose_gateway.methods.stress_test.screen.counterfactuals import make_counterfactuals
from counterpose_gateway.methods.stress_test.screen.draws import by_noise
from counterpose_gateway.methods.stress_test.screen.edits import Draft, reconstruct
from counterpose_gateway.methods.stress_test.screen.features import record_features
from counterpose_gateway.methods.stress_test.screen.interventions import (
    apply_instructions,
    apply_interventions,
)
from counterpose_gateway.methods.stress_test.screen.lance_r import replace_random_words
from counterpose_gateway.methods.stress_test.screen.proposals import draw_proposals, write_caption
from counterpose_gateway.methods.stress_test.screen.suite_fit import record_fit
from counterpose_gateway.methods.stress_test.screen.text_filters import drop_refused, keep_edits
from counterpose_gateway.methods.stress_test.transforms.process import OPERATIONS, answer_operations
from counterpose_gateway.records.items import LeasedGroup, LeasedItem, Recorder
from counterpose_gateway.runs.attempt import finish_group, together
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.objectionable import drop_objectionable
from counterpose_gateway.steps.predictions import answered_pairs, classify_images


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Process the leased items of one source and record each exactly once.

    Items that are drawn again have an attempt for each noise. A bad item does not affect the others; a call
    that fails as a whole fails the items that needed it.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = StressTestConfig.model_validate(group.config)
    operations = [item for item in group.items if item.kind == OPERATIONS]
    edits = replace(group, items=[item for item in group.items if item.kind != OPERATIONS])
    attempts = [
        (part, attempt, _work_through(attempt, part.items[0], services))
        for part, own in by_noise(edits, config)
        for attempt in [Attempt(part, own, record, store)]
    ]
    if operations:
        part = replace(group, items=operations)
        attempt = Attempt(part, config, record, store)
        attempts.append((part, attempt, answer_operations(attempt, operations[0], services)))
    await together(finish_group(attempt, part, work) for part, attempt, work in attempts)


async def _work_through(attempt: Attempt, source: LeasedItem, services: Services) -> None:
    written = await write_caption(attempt, source, services)
    caption = written.text
    await _record_caption(attempt, caption)
    proposals = await draw_proposals(attempt, source, caption, services)
    edits = await keep_edits(attempt, source.label, proposals, services)
    edits += await replace_random_words(attempt, source, caption, services)
    edits += await apply_interventions(attempt, source, caption)
    edits += await apply_instructions(attempt, source, caption)
    edits = await drop_refused(attempt, edits)
    # The control goes first: what a backend finds out about the image for it, every edit starts from.
    control = await reconstruct(attempt, source, caption, services)
    control = await record_fit(attempt, source, written, control, services)
    counterfactuals = await make_counterfactuals(attempt, source, caption, edits, services)
    threshold = attempt.config.objectionable
    drafts = await drop_objectionable(attempt, [*control, *counterfactuals], threshold, services)
    drafts = await record_features(attempt, source, drafts, services)
    await predict(attempt, source, drafts, services)


async def _record_caption(attempt: Attempt, caption: str) -> None:
    item = attempt.open_item("caption")
    if item is not None:
        await attempt.done(item, ItemResult(image=item.source_image, caption=caption))


async def predict(attempt: Attempt, source: LeasedItem, drafts: Sequence[Draft], services: Services) -> None:
    """Predict the source and each draft with every classifier of the run, and record the drafts as done.

    A classifier that fails on an image is left out there, as long as another one answers; one that is down
    only at the last attempt.

    Raises:
        BackendError: a classifier is down, or none predicted the source itself.
    """
    if not drafts:
        return
    # Each call includes the source, so that both predictions of a pair use the same weights.
    images = list(dict.fromkeys([source.source_image, *(draft.result.image for draft in drafts)]))
    config = attempt.config
    answers = await classify_images(
        attempt, config.request.classifiers, images, config.classes, services, spare=attempt.is_last
    )
    # Not attributed to a single draft: without the source, no draft can be compared.
    original, failed = answered_pairs(answers, source.source_image, source.label, config.classes)
    for draft in drafts:
        async with attempt.fail_items_on_error([draft.item]):
            pairs, missing = answered_pairs(answers, draft.result.image, source.label, config.classes)
            unanswered = missing | failed
            update = {
                "predictions": {spec: pair for spec, pair in pairs.items() if spec not in unanswered},
                "original_predictions": {name: pair for name, pair in original.items() if name in pairs},
                "unanswered": unanswered,
            }
            await attempt.done(draft.item, draft.result.model_copy(update=update))
