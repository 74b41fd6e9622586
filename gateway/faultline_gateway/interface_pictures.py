"""Pictures of an interface's class at once, without a run: what a user looks at before a benchmark."""

from __future__ import annotations

import asyncio

from faultline_core.contract.dataset_interfaces import (
    DatasetInterfaceConfig,
    Picture,
    Pictures,
    PicturesCreate,
    TokenItem,
)
from faultline_core.contract.editor import GenerateItem
from faultline_core.errors import BadBackendOutput, InvalidRequest
from faultline_core.shifts import BASE, catalogue, shift_of
from faultline_core.types import BlobRef
from faultline_gateway.ledger import Ledger
from faultline_gateway.parts import GatewayParts
from faultline_gateway.workflows.picture_prompts import prompt_of
from faultline_gateway.workflows.picture_seeds import picture_seed


async def generate(run_id: str, body: PicturesCreate, parts: GatewayParts) -> Pictures:
    """Make the pictures that are asked for, in one call of the editor.

    Raises:
        NotFound: there is no such interface.
        InvalidRequest: it has no such class, the class has no token yet, or the shift is none.
        PromptTooLong: the shift does not fit the editor's text encoder.
        BackendError: the editor failed.
    """
    config, token = await asyncio.to_thread(_class_of, parts.ledger, run_id, body)
    shift = None if body.shift is None else shift_of(body.shift)
    prompt = prompt_of(catalogue().base if shift is None else shift.prompt, body.class_name, token)
    seeds = [picture_seed(body.seed, body.class_name, place) for place in range(body.n)]
    items = [GenerateItem(prompt=prompt, seed=seed, token=token) for seed in seeds]
    answer = await parts.services.editor.generate(config.generation.changed_by(body).request(items))
    if len(answer.outcomes) != len(seeds):
        raise BadBackendOutput(f"the editor answered {len(answer.outcomes)} outcomes for {len(seeds)} items")
    return Pictures(
        pictures=[
            Picture(
                image=outcome.unwrap().image, class_name=body.class_name, prompt=prompt, seed=seed,
                token=token, shift=BASE if shift is None else shift.name,
            )
            for seed, outcome in zip(seeds, answer.outcomes, strict=True)
        ],
        model=answer.model,
        cost=answer.cost,
    )  # fmt: skip


def _class_of(
    ledger: Ledger, run_id: str, body: PicturesCreate
) -> tuple[DatasetInterfaceConfig, BlobRef | None]:
    """The interface's configuration and the class's token, None where its name is wanted."""
    config = DatasetInterfaceConfig.model_validate(ledger.run(run_id, "dataset-interface").resolved_config)
    name = body.class_name
    if name not in config.classes:
        raise InvalidRequest(f"the interface has no class {name!r}", pointer="/class_name")
    if body.by_name:
        return config, None
    for item in ledger.items_of(run_id, TokenItem):
        if item.label == name and item.state == "done" and item.result is not None:
            return config, item.result.token
    raise InvalidRequest(
        f"the interface has no token of {name!r} (by_name takes its plain name)", pointer="/class_name"
    )
