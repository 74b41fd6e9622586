"""Planning of a survey: one item per image."""

from __future__ import annotations

import asyncio

from counterpose_core.blobs import cache_key
from counterpose_core.types import ItemKind
from counterpose_gateway.records.items import Plan, PlannedItem
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import named_dataset, require_quota
from fakes.confidence_survey.contract import SurveyConfig, SurveyCreate

ITEM: ItemKind = "survey"  # type: ignore[assignment]  # the test adds it to the closed list


async def plan(create: SurveyCreate, context: RunContext) -> Plan:
    """Plan an item for each image of the dataset."""
    dataset = await asyncio.to_thread(named_dataset, create.dataset, "/dataset", context.ledger)
    require_quota(dataset.n_sources, context, "/dataset")
    sources = await asyncio.to_thread(context.ledger.datasets.sources, create.dataset)
    config = SurveyConfig(request=create, classes=list(dataset.classes))
    items = [
        PlannedItem(
            item_key=cache_key(source=source.id, config=config.model_dump(mode="json")),
            ordinal=ordinal,
            kind=ITEM,
            item_group=source.id,
            source_image=source.image,
            label=source.label,
        )
        for ordinal, source in enumerate(sources)
    ]
    return Plan(dataset.name, config, items)
