"""The work of a transfer: every classifier answers every image."""

from __future__ import annotations

from counterpose_core.contract.samples import SampleResult
from counterpose_core.contract.transfers import TransferConfig
from counterpose_gateway.records.items import MAX_ATTEMPTS, LeasedGroup, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.classified_samples import Judge, SampleDraft, classify_samples


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Classify the leased images.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = TransferConfig.model_validate(group.config)
    attempt = OpenItems(group, record, store)
    await finish_group(attempt, group, _classify(attempt, group, config, services))


async def _classify(
    attempt: OpenItems, group: LeasedGroup, config: TransferConfig, services: Services
) -> None:
    judge = Judge(config.request.classifiers, config.classes, config.criterion, config.parents)
    drafts = [SampleDraft(item, SampleResult(image=item.source_image)) for item in attempt.open]
    is_last = all(item.attempt >= MAX_ATTEMPTS for item in group.items)
    for draft in await classify_samples(attempt, drafts, judge, services, spare=is_last):
        await attempt.done(draft.item, draft.result)
