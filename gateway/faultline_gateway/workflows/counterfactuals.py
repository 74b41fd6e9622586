"""From caption edits to counterfactuals: values of the sweep are tried until one passes the gate."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.perturber import WordSpan
from faultline_core.contract.runs import ItemResult
from faultline_core.filters import Choice
from faultline_core.perturbations import Span
from faultline_core.sweep import rounds
from faultline_core.types import Decoder
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.attempt import Attempt, borne_alone
from faultline_gateway.workflows.gate import judge, score
from faultline_gateway.workflows.pictures import Draft, Sweep, Variant, check_picture, edit
from faultline_gateway.workflows.previews import Chosen, in_full
from faultline_gateway.workflows.text_filters import KeptEdit


async def make_counterfactuals(
    attempt: Attempt, source: LeasedItem, caption: str, edits: Sequence[KeptEdit], services: Services
) -> list[Draft]:
    """Make each edit over its sweep and keep the chosen picture; filter edits of which none passes.

    Values that the selection rule cannot take any more are not made: under ``released`` the largest comes
    first, and only the edits that fail there go on, together, to the next. Under a preset with ``preview``
    the values are compared by small pictures, and the gate judges the one that is then decoded in full.
    """
    preset, drafts = attempt.config.preset, dict[str, Draft]()
    trying = [Sweep(kept) for kept in edits]
    for values in rounds(preset.self_replace, preset.steps, attempt.config.request.selection):
        decoder: Decoder = "preview" if preset.preview else "full"
        made = await edit(attempt, source, caption, trying, values, services, decoder=decoder)
        trying, chosen = [], list[Chosen]()
        for sweep in await score(attempt, source, caption, made, services):
            choice = judge(sweep, attempt.config)
            if choice.failed is not None and len(sweep.variants) < len(preset.self_replace):
                trying.append(sweep)
            else:
                chosen.append((sweep, choice))
        if preset.preview:
            chosen = await in_full(attempt, source, caption, chosen, services)
        for sweep, choice in chosen:
            async with attempt.blaming([sweep.kept.item]):
                draft = await _settle(attempt, caption, sweep, choice)
                if draft is not None:
                    drafts[sweep.kept.item.id] = draft
    return [drafts[kept.item.id] for kept in edits if kept.item.id in drafts]


async def _settle(attempt: Attempt, caption: str, sweep: Sweep, choice: Choice) -> Draft | None:
    item, result = sweep.kept.item, _result(attempt, caption, sweep, sweep.variants[choice.index])
    if choice.failed is not None:
        detail = f"{len(sweep.variants)} variants; the best fails {choice.failed.removeprefix('gate-')}"
        await attempt.filtered(item, choice.failed, detail, result)
        return None
    # Of the chosen picture alone: nothing is concluded from the others.
    await check_picture(result.image, attempt.store)
    return Draft(item, result)


def _result(attempt: Attempt, caption: str, sweep: Sweep, chosen: Variant) -> ItemResult:
    proposal = sweep.kept.proposal
    return ItemResult(
        image=chosen.image,
        caption=caption,
        edited_caption=proposal.edited_caption,
        removed=_spans(proposal.words.removed),
        added=_spans(proposal.words.added),
        self_replace=chosen.self_replace,
        self_replace_tried=[variant.self_replace for variant in sweep.variants],
        scores=chosen.scores,
        preset=attempt.config.preset,
        cost=borne_alone(sweep.cost),
    )


def _spans(spans: Sequence[Span]) -> list[WordSpan]:
    return [WordSpan(words=list(span.words), start=span.start) for span in spans]
