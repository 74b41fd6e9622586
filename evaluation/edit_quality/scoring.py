"""The scorer's answers about the variants of an edit."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.contract.editor import EditItem
from counterpose_core.contract.scorer import EditScores, ScoreItem, ScoreRequest
from counterpose_core.text.caption_diff import difference
from counterpose_core.types import BlobRef
from counterpose_services.scorer.engine import ScorerEngine


def scored(scorer: ScorerEngine, edit: EditItem, variants: Sequence[BlobRef]) -> list[EditScores]:
    """Score each variant of one edit."""
    words = difference(edit.caption, edit.edited_caption)
    items = [
        ScoreItem(
            original=edit.image,
            edited=variant,
            caption=edit.caption,
            edited_caption=edit.edited_caption,
            removed=words.removed_text,
            added=words.added_text,
        )
        for variant in variants
    ]
    return [outcome.unwrap() for outcome in scorer.score(ScoreRequest(items=items)).outcomes]
