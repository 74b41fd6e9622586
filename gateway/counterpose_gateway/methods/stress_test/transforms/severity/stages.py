"""The second stage of an adaptive run: levels of claims on the tested half, and grids to complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from counterpose_core.blobs import cache_key
from counterpose_core.contract.runs import ItemResult, Run
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_gateway.methods.stress_test.transforms.severity.answers import SeverityAnswers
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.runs.stages import StagePlan

LAST_STAGE = 2


def next_stage(run: Run, items: Iterable[RecordedItem]) -> StagePlan | None:
    """Plan what the first stage leaves to ask; None where nothing is, or the run is not adaptive."""
    config = StressTestConfig.model_validate(run.resolved_config)
    if config.transforms is None or not config.transforms.is_adaptive or run.stage >= LAST_STAGE:
        return None
    answers, known = SeverityAnswers(config), list[RecordedItem]()
    for item in items:
        if item.result is not None:
            result = ItemResult.model_validate(item.result)
            answers.add(item.item_group, item.label, item.stage, item.state, result)
            # Its answers are held once already.
            known.append(item._replace(result={"caption": result.caption}))
    planned = list(_items(run, answers, known))
    return StagePlan(planned) if planned else None


def _items(run: Run, answers: SeverityAnswers, items: Iterable[RecordedItem]) -> Iterator[PlannedItem]:
    ordinals = count()
    for item in items:
        levels = answers.wanted(item.item_group)
        if levels:
            caption = (item.result or {}).get("caption") or None
            yield PlannedItem(
                item_key=cache_key(
                    run=run.id,
                    source=item.item_group,
                    object_class=item.label,
                    kind="transforms",
                    stage=LAST_STAGE,
                ),
                ordinal=next(ordinals),
                kind=item.kind,
                item_group=item.item_group,
                source_image=item.source_image,
                label=item.label,
                caption=caption,
                labels=item.labels,
                instruction={**(item.instruction or {}), "levels": levels},
            )
