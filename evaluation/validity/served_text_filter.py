"""The text filter as it is served, asked about what the served perturber proposes.

A run names why a slot stayed empty, but not each proposal that was dropped: proposals are therefore drawn
again here, for the run's own captions, and judged by the core's own functions and the suite's thresholds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.perturber import PerturbItem, PerturbRequest
from counterpose_core.contract.scorer import EmbedTextsRequest
from counterpose_core.images.clip_metrics import unit
from counterpose_core.stress_test.filters import names_label, text_filter
from counterpose_core.stress_test.subjective import subjective_word
from counterpose_core.suite import Suite, load_suite
from counterpose_core.text.caption_diff import Span, difference
from counterpose_core.types import EDIT_TYPES
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.scorer.engine import ScorerEngine

from .report import FilterFigures
from .text_filter import Proposal, judged_filter

VARIANTS = 4
_BATCH = 16


def proposed(engine: PerturberEngine, captions: Sequence[tuple[str, str]]) -> list[Proposal]:
    """Proposals of every type for (label, caption) pairs."""
    asked = [(label, caption, kind) for label, caption in captions for kind in EDIT_TYPES]
    found: list[Proposal] = []
    for start in tqdm(range(0, len(asked), _BATCH), desc="propose"):
        batch = asked[start : start + _BATCH]
        items = [
            PerturbItem(caption=caption, perturbation_type=kind, n=VARIANTS, seed=start + offset)
            for offset, (_, caption, kind) in enumerate(batch)
        ]
        answer = engine.perturb(PerturbRequest(items=items))
        for (label, caption, kind), outcome in zip(batch, answer.outcomes, strict=True):
            found += [Proposal(label, kind, caption, one.edited_caption) for one in outcome.unwrap().edits]
    return found


def passed(engine: ScorerEngine, suite: Suite, proposals: Sequence[Proposal]) -> Iterator[bool]:
    """Whether the text filters of a stress test pass each proposal."""
    for one in tqdm(proposals, desc="filter"):
        words = difference(one.caption, one.edited)
        removed = _phrases(words.removed_text, words.removed)
        added = _phrases(words.added_text, words.added)
        refused = names_label(removed, added, one.label) or subjective_word(added, removed, one.edited)
        yield not refused and _unlike(engine, suite, one.label, removed, added)


def _phrases(whole: str, spans: Sequence[Span]) -> list[str]:
    return [whole, *([span.text for span in spans] if len(spans) > 1 else [])] if whole else []


def _unlike(
    engine: ScorerEngine, suite: Suite, label: str, removed: Sequence[str], added: Sequence[str]
) -> bool:
    texts = list(dict.fromkeys([label, *removed, *added]))
    answer = engine.embed_texts(EmbedTextsRequest(texts=texts, encoder="sentence"))
    vectors = {
        text: unit(outcome.unwrap().vector) for text, outcome in zip(texts, answer.outcomes, strict=True)
    }
    verdict = text_filter(
        label=vectors[label],
        removed=[vectors[text] for text in removed],
        added=[vectors[text] for text in added],
        class_epsilon=suite.scorer.text.class_similarity,
        word_epsilon=suite.scorer.text.word_similarity,
    )
    return verdict.reason is None


def measure(
    captions: Sequence[tuple[str, str]], weights: Path, generator: np.random.Generator
) -> FilterFigures:
    """Propose, filter and judge, by the suite's models below ``weights``."""
    suite = load_suite("miniature")
    perturber = PerturberEngine.load(suite.perturber, weights)
    with tempfile.TemporaryDirectory() as folder:
        scorer = ScorerEngine.load(suite.scorer, weights, BlobStore(folder))
        proposals = proposed(perturber, captions)
        return judged_filter(proposals, list(passed(scorer, suite, proposals)), generator)
