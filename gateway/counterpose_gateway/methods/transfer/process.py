"""The work of a transfer: every classifier answers every image."""

from __future__ import annotations

from counterpose_core.contract.samples import SampleResult
from counterpose_core.contract.transfers import TransferConfig
from counterpose_gateway.records.items import LeasedGroup, Recorder
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
    attempt = OpenItems(group, services, record, store)
    await finish_group(attempt, group, _classify(attempt, config))


async def _classify(attempt: OpenItems, config: TransferConfig) -> None:
    judge = Judge(config.request.classifiers, config.classes, config.criterion, config.parents)
    drafts = [SampleDraft(item, SampleResult(image=item.source_image)) for item in attempt.open]
    drafts = attempt.keep(await classify_samples(attempt.calls, drafts, judge, spare=attempt.is_last))
    for draft in drafts:
        await attempt.done(draft.item, draft.result)
