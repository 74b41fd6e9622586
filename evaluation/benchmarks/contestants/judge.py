"""The image gate of a stress test: which images of a sweep pass; each image is judged once."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.scorer import ScoreItem, ScoreRequest
from counterpose_core.contract.stress_tests import GateThresholds
from counterpose_core.stress_test.filters import gate
from counterpose_core.suite import load_suite
from counterpose_services.scorer.engine import ScorerEngine
from evaluation.benchmarks.workload import WEIGHTS


class Judge:
    """Remembers its verdicts, so that a timed repetition with equal images does not judge again."""

    def __init__(self, suite: str = "miniature") -> None:
        # In memory: nothing to clean up, and no disk access in a timed repetition.
        self._store = BlobStore(f"memory://benchmark-{uuid.uuid4().hex}")
        scorer = load_suite(suite).scorer
        self._thresholds: GateThresholds = scorer.gate
        self._engine = ScorerEngine.load(scorer, WEIGHTS, self._store)
        self._verdicts: dict[tuple[str, str, bytes], bool] = {}

    def passes(self, source: bytes, caption: str, edited: str, images: Sequence[bytes]) -> list[bool]:
        """Say which images of one edit of one source pass."""
        new = [image for image in images if (caption, edited, image) not in self._verdicts]
        if new:
            original = self._store.put(source)
            items = [
                ScoreItem(
                    original=original,
                    edited=self._store.put(image),
                    caption=caption,
                    edited_caption=edited,
                )
                for image in new
            ]
            outcomes = self._engine.score(ScoreRequest(items=items)).outcomes
            for image, outcome in zip(new, outcomes, strict=True):
                passed = gate(outcome.unwrap(), self._thresholds) is None
                self._verdicts[caption, edited, image] = passed
        return [self._verdicts[caption, edited, image] for image in images]
