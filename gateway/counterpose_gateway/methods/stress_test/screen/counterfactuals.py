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
from counterpose_gateway.methods.stress_test.screen.edits import Draft, Sweep, Variant, edit
from counterpose_gateway.methods.stress_test.screen.gate import judge, score
from counterpose_gateway.methods.stress_test.screen.judges import is_judged, with_clip
from counterpose_gateway.methods.stress_test.screen.regions import confined
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.methods.stress_test.screen.text_filters import KeptEdit
from counterpose_gateway.runs.calls import Calls, own_cost, together
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.stores import check_image


async def make_counterfactuals(
    calls: Calls, subject: Subject, edits: Sequence[KeptEdit]
) -> tuple[list[Draft], Drops]:
    """Make each edit over its sweep and keep the chosen image; filter edits without a passing image.

    Values that the selection rule cannot take any more are not made: under ``released`` the largest comes
    first, and only the edits that fail there go on, together, to the next. Under a preset with ``preview``
    the values are compared by small images, and the gate judges the one that is then decoded in full.
    """
    config, drafts, drops = subject.config, dict[str, Draft](), Drops()
    preset, trying = config.editing, [Sweep(kept) for kept in edits]
    decoder: Decoder = "preview" if preset.previews else "full"
    for values in rounds(preset.sweep, preset.level, config.request.selection):
        edited = await edit(calls, subject, trying, values, drops, decoder=decoder)
        trying, chosen = [], list[Chosen]()
        for sweep in await score(calls, subject, edited, drops):
            choice = judge(sweep, config)
            if choice.failed is not None and len(sweep.variants) < len(preset.sweep):
                trying.append(sweep)
            else:
                chosen.append((sweep, choice))
        if preset.previews:
            chosen = await _in_full(calls, subject, chosen, drops)
        for sweep, choice in chosen:
            item, result = sweep.kept.item, _result(subject, sweep, sweep.variants[choice.index])
            if is_judged(config, item.kind):
                result = with_clip(result, choice.failed)
            elif choice.failed is not None:
                best = choice.failed.removeprefix("gate-")
                detail = f"{len(sweep.variants)} variants; the best fails {best}"
                drops.filtered(item, choice.failed, detail, result)
                continue
            # Only the chosen image counts: nothing is concluded from the others.
            with drops.on_error([item]):
                await check_image(result.image, calls.store)
                drafts[item.id] = Draft(item, result)
    return [drafts[kept.item.id] for kept in edits if kept.item.id in drafts], drops


def _result(subject: Subject, sweep: Sweep, chosen: Variant) -> ItemResult:
    proposal = sweep.kept.proposal
    return ItemResult(
        image=chosen.image,
        caption=subject.caption,
        edited_caption=proposal.edited_caption,
        removed=_spans(proposal.words.removed),
        added=_spans(proposal.words.added),
        strength=chosen.strength,
        strengths_tried=[variant.strength for variant in sweep.variants],
        scores=chosen.scores,
        sweep=_sweep_scores(sweep),
        text=sweep.kept.text,
        preset=subject.config.editing,
        served=chosen.served,
        region=confined(subject, chosen.confined_by, chosen.unchanged),
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


async def _in_full(calls: Calls, subject: Subject, chosen: Sequence[Chosen], drops: Drops) -> list[Chosen]:
    """Put the full image and its scores in the chosen variant's place, and judge it again.

    The editor has the latents of every preview, so this needs no evaluation of its network. An edit whose
    preview failed may pass in full, and the other way round.
    """
    by_value: dict[float, list[Chosen]] = {}
    for sweep, choice in chosen:
        by_value.setdefault(sweep.variants[choice.index].strength, []).append((sweep, choice))
    decoded = await together(_at(calls, subject, value, group, drops) for value, group in by_value.items())
    return [pair for group in decoded for pair in group]


async def _at(
    calls: Calls, subject: Subject, value: float, chosen: Sequence[Chosen], drops: Drops
) -> list[Chosen]:
    bare = [replace(sweep, variants=()) for sweep, _ in chosen]
    edited = await edit(calls, subject, bare, (value,), drops)
    before = {sweep.kept.item.id: (sweep, choice) for sweep, choice in chosen}
    rejudged = []
    for full in await score(calls, subject, edited, drops):
        sweep, choice = before[full.kept.item.id]
        variants = list(sweep.variants)
        chosen_one = variants[choice.index]
        variants[choice.index] = replace(full.variants[0], preview_scores=chosen_one.scores)
        failed = judge(full, subject.config).failed
        rejudged.append((replace(full, variants=tuple(variants)), Choice(choice.index, failed)))
    return rejudged
