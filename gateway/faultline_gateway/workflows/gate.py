"""The gate over the sweep: which variant of an edit is kept, if any (LANCE, Algorithm 1, line 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from faultline_core.contract.perturber import WordSpan
from faultline_core.contract.runs import ItemResult
from faultline_core.contract.scorer import EditScores, ScoreItem, ScoreRequest
from faultline_core.errors import BadBackendOutput
from faultline_core.filters import GATE_REASONS, LANCE_R_REASONS, GateReason, choose
from faultline_core.perturbations import Span
from faultline_core.types import ItemKind
from faultline_gateway.ports import Services
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.attempt import Attempt, borne_alone, together
from faultline_gateway.workflows.pictures import Draft, Sweep, check_picture

_MOST_SCORES = 64
# Cosines of float32 vectors, clipped or not, come out a little over 1.
_COSINE_SLACK = 1e-3
_CRITERIA: Mapping[ItemKind, tuple[GateReason, ...]] = MappingProxyType(
    {
        "edit": GATE_REASONS,
        # It changes no meaning: there is no direction to follow and no caption to be nearer to.
        "placebo": ("gate-image-image", "gate-image-text"),
        "lance-r": LANCE_R_REASONS,
        "intervention": GATE_REASONS,
    }
)


async def pass_gate(
    attempt: Attempt, source: LeasedItem, caption: str, sweeps: Sequence[Sweep], services: Services
) -> list[Draft]:
    """Score all variants, keep the chosen one of each edit, and filter edits of which none passes."""
    # Whole sweeps only: the choice needs all scores of an edit at once.
    step = _MOST_SCORES // len(attempt.config.preset.self_replace)
    chunks = [sweeps[start : start + step] for start in range(0, len(sweeps), step)]
    passed = await together(_judge_chunk(attempt, source, caption, chunk, services) for chunk in chunks)
    return [draft for drafts in passed for draft in drafts]


async def _judge_chunk(
    attempt: Attempt, source: LeasedItem, caption: str, sweeps: Sequence[Sweep], services: Services
) -> list[Draft]:
    asked = [item for sweep in sweeps for item in _score_items(source, caption, sweep)]
    drafts: list[Draft] = []
    async with attempt.blaming([sweep.kept.item for sweep in sweeps]):
        response = await attempt.call("scorer", services.scorer.score, ScoreRequest(items=asked))
        outcomes = iter(attempt.outcomes("scorer", response, len(asked)))
        attempt.share(response.cost)
        for sweep in sweeps:
            answered = [next(outcomes) for _ in sweep.edited.variants]
            async with attempt.blaming([sweep.kept.item]):
                scores = [_checked(outcome.unwrap()) for outcome in answered]
                drafts += await _choose(attempt, caption, sweep, scores)
    return drafts


def _score_items(source: LeasedItem, caption: str, sweep: Sweep) -> list[ScoreItem]:
    proposal = sweep.kept.proposal
    return [
        ScoreItem(
            original=source.source_image,
            edited=variant.image,
            caption=caption,
            edited_caption=proposal.edited_caption,
            removed=proposal.words.removed_text,
            added=proposal.words.added_text,
        )
        for variant in sweep.edited.variants
    ]


def _checked(scores: EditScores) -> EditScores:
    for name, value in scores.model_dump(exclude_none=True).items():
        if not abs(value) <= 1.0 + _COSINE_SLACK:
            raise BadBackendOutput(f"the scorer answered {name} = {value!r}, which is no cosine")
    return scores


async def _choose(attempt: Attempt, caption: str, sweep: Sweep, scores: Sequence[EditScores]) -> list[Draft]:
    item, config = sweep.kept.item, attempt.config
    fractions = [variant.self_replace for variant in sweep.edited.variants]
    choice = choose(
        list(zip(fractions, scores, strict=True)),
        config.gate,
        config.request.selection,
        _CRITERIA[item.kind],
    )
    result = _result(attempt, caption, sweep, choice.index, scores[choice.index])
    if choice.failed is not None:
        detail = f"{len(fractions)} variants; the best fails {choice.failed.removeprefix('gate-')}"
        await attempt.filtered(item, choice.failed, detail, result)
        return []
    # Of the chosen picture alone: nothing is concluded from the others.
    await check_picture(result.image, attempt.store)
    return [Draft(item, result)]


def _result(attempt: Attempt, caption: str, sweep: Sweep, index: int, scores: EditScores) -> ItemResult:
    variant, proposal = sweep.edited.variants[index], sweep.kept.proposal
    return ItemResult(
        image=variant.image,
        caption=caption,
        edited_caption=proposal.edited_caption,
        removed=_spans(proposal.words.removed),
        added=_spans(proposal.words.added),
        self_replace=variant.self_replace,
        scores=scores,
        preset=attempt.config.preset,
        cost=borne_alone(sweep.edited.cost),
    )


def _spans(spans: Sequence[Span]) -> list[WordSpan]:
    return [WordSpan(words=list(span.words), start=span.start) for span in spans]
