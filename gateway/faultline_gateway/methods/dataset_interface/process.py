"""The dataset interface: classes are learned as tokens in batches, and each token is then validated."""

from __future__ import annotations

import json

from faultline_core.contract.dataset_interfaces import DatasetInterfaceConfig
from faultline_gateway.methods.dataset_interface.learning import ClassState, learn
from faultline_gateway.methods.dataset_interface.prompts import write_prompts
from faultline_gateway.methods.dataset_interface.token_selection import select_token
from faultline_gateway.methods.dataset_interface.validation import validate
from faultline_gateway.runs.attempt import OpenItems, finish_group
from faultline_gateway.runs.items import LeasedGroup, Recorder
from faultline_gateway.runs.stores import Store
from faultline_gateway.services.ports import Services


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Learn the leased classes together and record each exactly once; a class that fails affects no other.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = DatasetInterfaceConfig.model_validate(group.config)
    attempt = OpenItems(group, record, store)
    await finish_group(attempt, group, _work_through(attempt, config, services))


async def _work_through(attempt: OpenItems, config: DatasetInterfaceConfig, services: Services) -> None:
    states = []
    for item in attempt.open:
        async with attempt.fail_items_on_error([item]):
            images = json.loads(attempt.store.get(config.images[item.label]))
            states.append(ClassState(item, images))
    if config.prompts == "captions":
        await write_prompts(attempt, config, states, services)
    await learn(attempt, config, states, services)
    for state in states:
        if attempt.is_open(state.item):
            async with attempt.fail_items_on_error([state.item]):
                # A single candidate leaves nothing to choose.
                if len(state.offers) > 1:
                    await select_token(attempt, config, state, services)
                await attempt.done(state.item, await validate(attempt, config, state, services))
