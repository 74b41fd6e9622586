"""The gate over the sweep: which variant of an edit is kept, if any (LANCE, Algorithm 1, line 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from counterpose_core.contract.scorer import EditScores, ScoreItem, ScoreRequest
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import BadBackendOutput
from counterpose_core.stress_test.filters import GATE_REASONS, LANCE_R_REASONS, Choice, GateReason, choose
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.screen.edits import Sweep, Variant
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.runs.drops import Drops

_MOST_SCORES = 64
# Cosines of float32 vectors, clipped or not, come out a little over 1.
_COSINE_SLACK = 1e-3
CRITERIA: Mapping[ItemKind, tuple[GateReason, ...]] = MappingProxyType(
    {
        "edit": GATE_REASONS,
        # A placebo keeps the meaning: it has no direction to follow and no caption to come closer to.
        "placebo": ("gate-image-image", "gate-image-text"),
        "lance-r": LANCE_R_REASONS,
        "intervention": GATE_REASONS,
        "confirmation": GATE_REASONS,
    }
)
"""The criteria that each kind of item must meet."""


def judge(sweep: Sweep, config: StressTestConfig) -> Choice:
    """Choose among the variants of an edit, all of which have scores; ``index`` counts them in order.

    Without CLIP there is one variant, and nothing to judge it by.
    """
    if not config.has_clip:
        return Choice(0, None)
    scored = [(variant.strength, variant.scores) for variant in sweep.variants if variant.scores is not None]
    return choose(scored, config.gate, config.request.selection, CRITERIA[sweep.kept.item.kind])


async def score(calls: Calls, subject: Subject, sweeps: Sequence[Sweep], drops: Drops) -> list[Sweep]:
    """Score all variants that have no scores yet; edits that fail at it are dropped.

    Without CLIP they stay without.
    """
    if not subject.config.has_clip:
        return list(sweeps)
    # An edit is never split: the choice needs all of its scores at once.
    step = _MOST_SCORES // max((len(_unscored(sweep)) for sweep in sweeps), default=1)
    chunks = [sweeps[start : start + step] for start in range(0, len(sweeps), step)]
    scored = await together(_score_chunk(calls, subject, chunk, drops) for chunk in chunks)
    return [sweep for chunk in scored for sweep in chunk]


def _unscored(sweep: Sweep) -> list[Variant]:
    return [variant for variant in sweep.variants if variant.scores is None]


async def _score_chunk(calls: Calls, subject: Subject, sweeps: Sequence[Sweep], drops: Drops) -> list[Sweep]:
    asked = [_score_item(subject, sweep, variant) for sweep in sweeps for variant in _unscored(sweep)]
    scored: list[Sweep] = []
    with drops.on_error([sweep.kept.item for sweep in sweeps]):
        outcomes = iter(await calls.ask("scorer", calls.services.scorer.score, ScoreRequest(items=asked)))
        for sweep in sweeps:
            answered = [next(outcomes) for _ in _unscored(sweep)]
            with drops.on_error([sweep.kept.item]):
                scored.append(_with_scores(sweep, [_checked(outcome.unwrap()) for outcome in answered]))
    return scored


def _with_scores(sweep: Sweep, scores: Sequence[EditScores]) -> Sweep:
    answers = iter(scores)
    variants = (
        variant if variant.scores is not None else replace(variant, scores=next(answers))
        for variant in sweep.variants
    )
    return replace(sweep, variants=tuple(variants))


def _score_item(subject: Subject, sweep: Sweep, variant: Variant) -> ScoreItem:
    proposal = sweep.kept.proposal
    return ScoreItem(
        original=subject.image,
        edited=variant.image,
        caption=subject.caption,
        edited_caption=proposal.edited_caption,
        removed=proposal.words.removed_text,
        added=proposal.words.added_text,
    )


def _checked(scores: EditScores) -> EditScores:
    for name, value in scores.model_dump(exclude_none=True).items():
        if not abs(value) <= 1.0 + _COSINE_SLACK:
            raise BadBackendOutput(f"the scorer returned {name} = {value!r}, which is not a cosine")
    return scores
