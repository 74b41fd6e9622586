"""From caption edits to counterfactuals: try values of the sweep until one passes the gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from counterpose_core.contract.perturber import WordSpan
from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.stress_test_thresholds import SweepScores
from counterpose_core.stress_test.filters import Choice
from counterpose_core.stress_test.sweep import rounds
from counterpose_core.text.caption_diff import Span
from counterpose_core.types import Decoder
from counterpose_gateway.methods.stress_test.screen.attempt import Attempt
from counterpose_gateway.methods.stress_test.screen.edits import Draft, Sweep, Variant, edit
from counterpose_gateway.methods.stress_test.screen.gate import judge, score
from counterpose_gateway.methods.stress_test.screen.text_filters import KeptEdit
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.attempt import own_cost, together
from counterpose_gateway.runs.stores import check_image
from counterpose_gateway.services.ports import Services


async def make_counterfactuals(
    attempt: Attempt, source: LeasedItem, caption: str, edits: Sequence[KeptEdit], services: Services
) -> list[Draft]:
    """Make each edit over its sweep and keep the chosen image; filter edits without a passing image.

    Values that the selection rule cannot take any more are not made: under ``released`` the largest comes
    first, and only the edits that fail there go on, together, to the next. Under a preset with ``preview``
    the values are compared by small images, and the gate judges the one that is then decoded in full.
    """
    preset, drafts = attempt.config.editing, dict[str, Draft]()
    trying = [Sweep(kept) for kept in edits]
    selection = attempt.config.request.selection
    for values in rounds(preset.sweep, preset.level, selection):
        decoder: Decoder = "preview" if preset.previews else "full"
        edited = await edit(attempt, source, caption, trying, values, services, decoder=decoder)
        trying, chosen = [], list[Chosen]()
        for sweep in await score(attempt, source, caption, edited, services):
            choice = judge(sweep, attempt.config)
            if choice.failed is not None and len(sweep.variants) < len(preset.sweep):
                trying.append(sweep)
            else:
                chosen.append((sweep, choice))
        if preset.previews:
            chosen = await in_full(attempt, source, caption, chosen, services)
        for sweep, choice in chosen:
            async with attempt.fail_items_on_error([sweep.kept.item]):
                draft = await _record_choice(attempt, caption, sweep, choice)
                if draft is not None:
                    drafts[sweep.kept.item.id] = draft
    return [drafts[kept.item.id] for kept in edits if kept.item.id in drafts]


async def _record_choice(attempt: Attempt, caption: str, sweep: Sweep, choice: Choice) -> Draft | None:
    item, result = sweep.kept.item, _result(attempt, caption, sweep, sweep.variants[choice.index])
    if choice.failed is not None:
        detail = f"{len(sweep.variants)} variants; the best fails {choice.failed.removeprefix('gate-')}"
        await attempt.filtered(item, choice.failed, detail, result)
        return None
    # Only the chosen image counts: nothing is concluded from the others.
    await check_image(result.image, attempt.store)
    return Draft(item, result)


def _result(attempt: Attempt, caption: str, sweep: Sweep, chosen: Variant) -> ItemResult:
    proposal = sweep.kept.proposal
    return ItemResult(
        image=chosen.image,
        caption=caption,
        edited_caption=proposal.edited_caption,
        removed=_spans(proposal.words.removed),
        added=_spans(proposal.words.added),
        strength=chosen.strength,
        strengths_tried=[variant.strength for variant in sweep.variants],
        scores=chosen.scores,
        sweep=_sweep_scores(sweep),
        text=sweep.kept.text,
        preset=attempt.config.editing,
        cost=own_cost(sweep.cost),
    )


def _sweep_scores(sweep: Sweep) -> list[SweepScores]:
    """The scores of all values that were compared; of one, the scores of the result are enough."""
    if len(sweep.variants) < 2:
        return []
    return [
        SweepScores.model_validate({**each.compared.model_dump(), "strength": each.strength})
        for each in sweep.variants
        if each.compared is not None
    ]


def _spans(spans: Sequence[Span]) -> list[WordSpan]:
    return [WordSpan(words=list(span.words), start=span.start) for span in spans]


Chosen = tuple[Sweep, Choice]
"""An edit, and the variant that was chosen."""


async def in_full(
    attempt: Attempt, source: LeasedItem, caption: str, chosen: Sequence[Chosen], services: Services
) -> list[Chosen]:
    """Put the full image and its scores in the chosen variant's place, and judge it again.

    The editor has the latents of every preview, so this needs no evaluation of its network. An edit whose
    preview failed may pass in full, and the other way round.
    """
    by_value: dict[float, list[Chosen]] = {}
    for sweep, choice in chosen:
        by_value.setdefault(sweep.variants[choice.index].strength, []).append((sweep, choice))
    decoded = await together(
        _at(attempt, source, caption, value, group, services) for value, group in by_value.items()
    )
    return [pair for group in decoded for pair in group]


async def _at(
    attempt: Attempt,
    source: LeasedItem,
    caption: str,
    value: float,
    chosen: Sequence[Chosen],
    services: Services,
) -> list[Chosen]:
    bare = [replace(sweep, variants=()) for sweep, _ in chosen]
    edited = await edit(attempt, source, caption, bare, (value,), services)
    before = {sweep.kept.item.id: (sweep, choice) for sweep, choice in chosen}
    rejudged = []
    for full in await score(attempt, source, caption, edited, services):
        sweep, choice = before[full.kept.item.id]
        variants = list(sweep.variants)
        chosen_one = variants[choice.index]
        variants[choice.index] = replace(full.variants[0], preview_scores=chosen_one.scores)
        failed = judge(full, attempt.config).failed
        rejudged.append((replace(full, variants=tuple(variants)), Choice(choice.index, failed)))
    return rejudged
