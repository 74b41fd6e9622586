"""Preview images of an interface's class, made at once and without a run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from counterpose_core.contract.dataset_interfaces import (
    DatasetInterfaceConfig,
    Image,
    Images,
    ImagesCreate,
    TokenItem,
)
from counterpose_core.contract.editor import GenerateItem
from counterpose_core.errors import InvalidRequest
from counterpose_core.shift_benchmark.shifts import BASE, catalogue, shift_of
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.types import BlobRef
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.seeds import image_seed
from counterpose_gateway.steps.prompts import class_prompt
from counterpose_gateway.steps.safety import allowed

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


async def generate(run_id: str, body: ImagesCreate, context: RunContext) -> Images:
    """Make the requested images in one call of the editor.

    Raises:
        NotFound: the interface does not exist.
        InvalidRequest: it has no such class, the class has no token yet, or the shift is invalid.
        QuotaExceeded: too little is left of the tenant's quota.
        PromptTooLong: the shift does not fit the editor's text encoder.
        BackendError: the editor failed.
    """
    allowance = await asyncio.to_thread(context.ledger.access.allowance)
    if (refusal := allowance.refusal(body.n)) is not None:
        raise refusal
    config, token = await asyncio.to_thread(_class_of, context.ledger, run_id, body)
    shift = None if body.shift is None else shift_of(body.shift)
    prompt = class_prompt(catalogue().base if shift is None else shift.prompt, body.class_name, token)
    seeds = [image_seed(body.seed, body.class_name, place) for place in range(body.n)]
    items = [GenerateItem(prompt=prompt, seed=seed, token=token) for seed in seeds]
    answer = await context.services.editor.generate(config.generation.changed_by(body).request(items))
    made = [allowed(outcome).image for outcome in answer.outcomes]
    # No run has them: without a note, nobody could look at them.
    await asyncio.to_thread(context.ledger.blobs.keep, made)
    await asyncio.to_thread(context.ledger.access.note_usage, len(made), answer.cost.seconds)
    return Images(
        images=[
            Image(
                image=image, class_name=body.class_name, prompt=prompt, seed=seed,
                token=token, shift=BASE if shift is None else shift.name,
            )
            for seed, image in zip(seeds, made, strict=True)
        ],
        model=answer.model,
        cost=answer.cost,
    )  # fmt: skip


def _class_of(
    ledger: Ledger, run_id: str, body: ImagesCreate
) -> tuple[DatasetInterfaceConfig, BlobRef | None]:
    """The interface's configuration and the class's token; None if the request asks for the class name."""
    config = DatasetInterfaceConfig.model_validate(
        ledger.runs.get(run_id, "dataset-interface").resolved_config
    )
    name = body.class_name
    if name not in config.classes:
        raise InvalidRequest(
            f"the interface has no class {name!r}{did_you_mean(name, config.classes)}; choose one of "
            f"{', '.join(config.classes[:5])}",
            pointer="/class_name",
        )
    if body.by_name:
        return config, None
    for item in ledger.items.of(run_id, TokenItem):
        if item.label == name and item.state == "done" and item.result is not None:
            return config, item.result.token
    raise InvalidRequest(
        f"the interface has not learned a token for {name!r} yet; wait for it, or set by_name",
        pointer="/class_name",
    )
