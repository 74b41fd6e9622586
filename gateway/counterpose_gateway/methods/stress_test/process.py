"""The stress test: LANCE's Algorithm 1, one source at a time, from caption to recorded counterfactuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.tasks import Truth, task_of
from counterpose_gateway.methods.stress_test.screen.counterfactuals import make_counterfactuals
from counterpose_gateway.methods.stress_test.screen.draws import by_noise
from counterpose_gateway.methods.stress_test.screen.edits import Draft, reconstruct
from counterpose_gateway.methods.stress_test.screen.features import record_features
from counterpose_gateway.methods.stress_test.screen.interventions import (
    apply_instructions,
    apply_interventions,
)
from counterpose_gateway.methods.stress_test.screen.judges import keep_judged
from counterpose_gateway.methods.stress_test.screen.lance_r import replace_random_words
from counterpose_gateway.methods.stress_test.screen.preservation import keep_preserved
from counterpose_gateway.methods.stress_test.screen.proposals import draw_proposals, write_caption
from counterpose_gateway.methods.stress_test.screen.regions import bounded
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.methods.stress_test.screen.suite_fit import record_fit
from counterpose_gateway.methods.stress_test.screen.text_filters import drop_refused, keep_edits
from counterpose_gateway.methods.stress_test.transforms.process import OPERATIONS, answer_operations
from counterpose_gateway.records.items import LeasedGroup, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.objectionable import drop_objectionable
from counterpose_gateway.steps.predictions import classify_images, scored_answers


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
        (part, attempt, _work_through(attempt, own))
        for part, own in by_noise(edits, config)
        for attempt in [OpenItems(part, services, record, store)]
    ]
    if operations:
        part = replace(group, items=operations)
        attempt = OpenItems(part, services, record, store)
        attempts.append((part, attempt, _operate(attempt, config)))
    await together(finish_group(attempt, part, work) for part, attempt, work in attempts)


async def _operate(attempt: OpenItems, config: StressTestConfig) -> None:
    item = attempt.open[0]
    await attempt.done(item, await answer_operations(attempt.calls, config, item, spare=attempt.is_last))


async def _work_through(attempt: OpenItems, config: StressTestConfig) -> None:
    source, calls, keep = attempt.open[0], attempt.calls, attempt.keep
    written = await write_caption(calls, source)
    subject = Subject(config, source, written.text)
    for item in attempt.of_kind("caption"):
        await attempt.done(item, ItemResult(image=item.source_image, caption=subject.caption))
    drawn = keep(await draw_proposals(calls, subject, attempt.of_kind("edit", "placebo")))
    edits = keep(await keep_edits(calls, subject, drawn, attempt.of_kind("edit", "placebo")))
    edits += keep(await replace_random_words(calls, subject, attempt.of_kind("lance-r")))
    edits += keep(apply_interventions(subject, attempt.of_kind("intervention")))
    edits += keep(apply_instructions(subject, attempt.of_kind("confirmation")))
    edits = keep(drop_refused(subject, edits))
    subject, parted = await bounded(calls, subject, edits, attempt.of_kind("reconstruction"))
    edits = keep(parted)
    # The control goes first: what a backend finds out about the image for it, every edit starts from.
    control = keep(await reconstruct(calls, subject, attempt.of_kind("reconstruction")))
    control = await record_fit(calls, subject, written.nats_per_token, control)
    drafts = [*control, *keep(await make_counterfactuals(calls, subject, edits))]
    drafts = keep(await drop_objectionable(calls, drafts, config.objectionable))
    drafts = keep(await keep_judged(calls, subject, drafts))
    drafts = await record_features(calls, source, drafts)
    drafts = keep(await keep_preserved(calls, subject, drafts))
    for draft in keep(await predict(calls, subject, drafts, spare=attempt.is_last)):
        await attempt.done(draft.item, draft.result)


async def predict(
    calls: Calls, subject: Subject, drafts: Sequence[Draft], *, spare: bool
) -> tuple[list[Draft], Drops]:
    """Predict the source and each draft with every classifier of the run.

    A classifier that fails on an image is left out there, as long as another one answers; one that is down
    only with ``spare``.

    Raises:
        BackendError: a classifier is down, or none predicted the source itself.
    """
    predicted, drops = list[Draft](), Drops()
    if not drafts:
        return predicted, drops
    # Each call includes the source, so that both predictions of a pair use the same weights.
    images = list(dict.fromkeys([subject.image, *(draft.image for draft in drafts)]))
    config, truth = subject.config, Truth.of(subject.source)
    task = task_of(config.request.task, config.classes)
    answers = await classify_images(calls, config.request.classifiers, images, config.classes, spare=spare)
    # Not attributed to a single draft: without the source, no draft can be compared.
    original, failed = scored_answers(answers, subject.image, truth, task)
    for draft in drafts:
        with drops.on_error([draft.item]):
            pairs, missing = scored_answers(answers, draft.image, truth, task)
            unanswered = missing | failed
            update = {
                "predictions": {spec: pair for spec, pair in pairs.items() if spec not in unanswered},
                "original_predictions": {name: pair for name, pair in original.items() if name in pairs},
                "unanswered": unanswered,
            }
            predicted.append(Draft(draft.item, draft.result.model_copy(update=update)))
    return predicted, drops
