"""Pictures of a cell: made by the editor, searched for, or those that its items name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from faultline_core.contract.editor import GenerateItem
from faultline_core.contract.shift_benchmarks import PictureResult, ShiftBenchmarkConfig
from faultline_core.types import BlobRef, Cost
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.attempt import OpenItems, borne_alone
from faultline_gateway.workflows.benchmark_cells import GENERATED, Cell
from faultline_gateway.workflows.found_pictures import IndexStore, Search, search_pictures
from faultline_gateway.workflows.picture_prompts import prompt_of
from faultline_gateway.workflows.picture_seeds import picture_seed
from faultline_gateway.workflows.pictures import check_picture
from faultline_gateway.workflows.unsearched_pictures import keep_unsearched

NOT_FOUND = "not-found"
"""The reason of an item for which the search found no picture."""


@dataclass(frozen=True)
class Obtained:
    """An item's picture, and all it takes to make or find it again."""

    item: LeasedItem
    image: BlobRef
    prompt: str | None = None
    seed: int | None = None
    token: BlobRef | None = None
    unsearched: BlobRef | None = None
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class PictureDraft:
    """A picture that was measured, before any model predicted it."""

    item: LeasedItem
    result: PictureResult

    @property
    def image(self) -> BlobRef:
        """The picture."""
        return self.result.image


async def obtain(
    attempt: OpenItems, config: ShiftBenchmarkConfig, cell: Cell, services: Services, store: IndexStore
) -> list[Obtained]:
    """Bring each open item its picture; items that fail, or find none, are recorded and left out.

    Raises:
        BackendError: the editor or the search failed as a whole.
    """
    if cell.source in GENERATED:
        return await _generate(attempt, config, cell, services)
    if cell.source == "retrieval":
        return await _search(attempt, config, cell, services, store)
    return [Obtained(item, item.source_image) for item in attempt.open]


async def _generate(
    attempt: OpenItems, config: ShiftBenchmarkConfig, cell: Cell, services: Services
) -> list[Obtained]:
    items, name = attempt.open, cell.class_name(config)
    token = config.tokens[name] if cell.source == "token" else None
    prompt = prompt_of(config.shifts[cell.condition].prompt, name, token)
    # Of class and place alone: base and shifts, token and name start from the same noise.
    seeds = [picture_seed(config.request.seed, name, item.slot) for item in items]
    request = config.generation.request(
        [GenerateItem(prompt=prompt, seed=seed, token=token) for seed in seeds]
    )
    response = await attempt.call("editor", services.editor.generate, request)
    outcomes = attempt.outcomes("editor", response, len(items))
    attempt.share(response.cost, [outcome.value.cost for outcome in outcomes if outcome.value is not None])
    obtained: list[Obtained] = []
    for item, seed, outcome in zip(items, seeds, outcomes, strict=True):
        async with attempt.blaming([item]):
            made = outcome.unwrap()
            await check_picture(made.image, attempt.store)
            obtained.append(
                Obtained(item, made.image, prompt, seed=seed, token=token, cost=borne_alone(made.cost))
            )
    return obtained


async def _search(
    attempt: OpenItems, config: ShiftBenchmarkConfig, cell: Cell, services: Services, store: IndexStore
) -> list[Obtained]:
    shift, name = config.shifts[cell.condition], cell.class_name(config)

    async def search(most: int) -> Search:
        return await search_pictures(config, shift.name, name, most, services, store)

    # All of the cell and not this chunk's: the search ranks them, and a chunk takes its ranks.
    searched = await attempt.call("scorer", search, config.request.n)
    attempt.share(searched.cost)
    unsearched = await asyncio.to_thread(keep_unsearched, searched.unreadable, store)
    images = [each.picture for each in searched.found]
    return await _ranked(attempt, images, prompt_of(shift.prompt, name, None), unsearched)


async def _ranked(
    attempt: OpenItems, images: Sequence[BlobRef], prompt: str, unsearched: BlobRef | None
) -> list[Obtained]:
    obtained: list[Obtained] = []
    for item in attempt.open:
        if item.slot < len(images):
            obtained.append(Obtained(item, images[item.slot], prompt, unsearched=unsearched))
        else:
            await attempt.filtered(item, NOT_FOUND, f"the search found {len(images)} pictures")
    return obtained
