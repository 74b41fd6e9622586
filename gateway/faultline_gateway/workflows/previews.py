"""What was chosen on previews, decoded in full: the gate judges the picture that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from faultline_core.filters import Choice
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.attempt import Attempt, together
from faultline_gateway.workflows.gate import judge, score
from faultline_gateway.workflows.pictures import Sweep, edit

Chosen = tuple[Sweep, Choice]
"""An edit, and which of its variants was taken."""


async def in_full(
    attempt: Attempt, source: LeasedItem, caption: str, chosen: Sequence[Chosen], services: Services
) -> list[Chosen]:
    """Put the full picture and its scores in the chosen variant's place, and judge it anew.

    The editor has the latents of every preview, so this takes no evaluation of its network. An edit whose
    preview failed may pass in full, and the other way round.
    """
    by_value: dict[float, list[Chosen]] = {}
    for sweep, choice in chosen:
        by_value.setdefault(sweep.variants[choice.index].self_replace, []).append((sweep, choice))
    decoded = await together(
        _at(attempt, source, caption, value, group, services) for value, group in by_value.items()
    )
    return [each for group in decoded for each in group]


async def _at(
    attempt: Attempt,
    source: LeasedItem,
    caption: str,
    value: float,
    chosen: Sequence[Chosen],
    services: Services,
) -> list[Chosen]:
    bare = [replace(sweep, variants=()) for sweep, _ in chosen]
    made = await edit(attempt, source, caption, bare, (value,), services)
    before = {sweep.kept.item.id: (sweep, choice) for sweep, choice in chosen}
    found = []
    for full in await score(attempt, source, caption, made, services):
        sweep, choice = before[full.kept.item.id]
        variants = list(sweep.variants)
        variants[choice.index] = full.variants[0]
        failed = judge(full, attempt.config).failed
        found.append((replace(full, variants=tuple(variants)), Choice(choice.index, failed)))
    return found
