"""The dataset interface: classes learned as tokens, several in one batch, each looked at once it is there."""

from __future__ import annotations

import json

from faultline_core.contract.dataset_interfaces import DatasetInterfaceConfig
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedGroup, Recorder
from faultline_gateway.workflows.attempt import OpenItems, Store, settle
from faultline_gateway.workflows.interface_planning import plan_interface
from faultline_gateway.workflows.interface_summary import summarize_interface
from faultline_gateway.workflows.learning_prompts import write_prompts
from faultline_gateway.workflows.offered_tokens import choose
from faultline_gateway.workflows.token_chain import Pupil, learn
from faultline_gateway.workflows.token_validation import validate

__all__ = ["plan_interface", "process_classes", "summarize_interface"]


async def process_classes(
    group: LeasedGroup,
    config: DatasetInterfaceConfig,
    *,
    services: Services,
    record: Recorder,
    store: Store,
) -> None:
    """Learn the leased classes together and record each exactly once; a class that fails, fails alone.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    attempt = OpenItems(group, record, store)
    await settle(attempt, group, _work_through(attempt, config, services))


async def _work_through(attempt: OpenItems, config: DatasetInterfaceConfig, services: Services) -> None:
    pupils = []
    for item in attempt.open:
        async with attempt.blaming([item]):
            images = json.loads(attempt.store.get(config.pictures[item.label]))
            pupils.append(Pupil(item, images))
    if config.prompts == "captions":
        await write_prompts(attempt, config, pupils, services)
    await learn(attempt, config, pupils, services)
    for pupil in pupils:
        if attempt.is_open(pupil.item):
            async with attempt.blaming([pupil.item]):
                # Of one offer there is nothing to choose.
                if len(pupil.offers) > 1:
                    await choose(attempt, config, pupil, services)
                await attempt.done(pupil.item, await validate(attempt, config, pupil, services))
