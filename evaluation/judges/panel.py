"""CLIP's gate, a captioner and an encoder as judges of a rendering server; none reads a scene or oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.captioner import CaptionItem, CaptionRequest
from counterpose_core.contract.editor import EditItem
from counterpose_core.contract.judges import MOST_OF_CLASS, JudgeItem, JudgeRequest, Verdict
from counterpose_core.stress_test.filters import gate
from counterpose_core.suite import Suite
from counterpose_miniature.world.dataset import encode_png
from counterpose_miniature.world.grammar import parse
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import DATASET
from counterpose_miniature.world.seeds import DEVELOPMENT, balanced_scenes
from counterpose_services.captioner.engine import CaptionerEngine
from counterpose_services.scorer.encoder_judge import EncoderJudge
from counterpose_services.scorer.engine import ScorerEngine
from evaluation.edit_quality.scoring import scored
from evaluation.edit_quality.trials import Trial
from evaluation.judges.edits import FIRST_REFERENCE, STREAM, Row, served
from evaluation.paths import SUITE_WEIGHTS
from evaluation.validity.judging import changed_attributes


class Panel:
    """CLIP's gate, a captioner that answers the closed questions, and an encoder.

    None reads a scene or the oracle. The encoder compares with as many references as a run would choose of
    each class, of which none is edited.
    """

    def __init__(self, suite: Suite, store: BlobStore) -> None:
        self._gate, self._store = suite.scorer.gate, store
        self._scorer = ScorerEngine.load(suite.scorer, SUITE_WEIGHTS, store)
        self._captioner = CaptionerEngine.load(suite.captioner, SUITE_WEIGHTS, store)
        assert suite.encoder is not None
        self._encoder = EncoderJudge.load(suite.encoder, SUITE_WEIGHTS, store)
        self._references: dict[str, list[str]] = {}
        for scene in balanced_scenes(DEVELOPMENT, DATASET, MOST_OF_CLASS, FIRST_REFERENCE):
            self._references.setdefault(scene.object_class, []).append(store.put(encode_png(render(scene))))

    def rows(self, trial: Trial) -> Iterator[Row]:
        """Yield one row for each of a scene's edits whose change is seen."""
        generator = np.random.default_rng([trial.scene.nuisance, STREAM])
        original = self._store.put(encode_png(render(trial.scene)))
        for edit in trial.edits:
            if (answer := served(trial.scene, edit, generator)) is None:
                continue
            fault, image = answer
            edited = self._store.put(encode_png(image))
            asked = EditItem(image=original, caption=edit.caption, edited_caption=edit.edited_caption)
            [scores] = scored(self._scorer, asked, [edited])
            item = JudgeItem(
                original=original,
                edited=edited,
                label=trial.scene.object_class,
                caption=edit.caption,
                edited_caption=edit.edited_caption,
            )
            yield Row(
                source=trial.index,
                edit_type=edit.edit_type,
                fault=fault,
                right=fault == "obeyed",
                failed=gate(scores, self._gate),
                direction=scores.direction,
                contrast=float(image.std()),
                captioner=self._judged(item),
                encoder=self._compared(item),
            )

    def _compared(self, item: JudgeItem) -> Verdict:
        request = JudgeRequest(judge="encoder", items=[item], references=self._references)
        return self._encoder.judge(request).outcomes[0].unwrap().verdict

    def _judged(self, item: JudgeItem) -> Verdict:
        before, after = self._told([item.original, item.edited])
        wanted = changed_attributes(item.caption, item.edited_caption)
        expected = {name: wanted.get(name, value) for name, value in before.items()} | wanted
        if not before or not after:
            return "unsure"
        return "yes" if all(after.get(name) == value for name, value in expected.items()) else "no"

    def _told(self, images: Sequence[str]) -> list[dict[str, Any]]:
        request = CaptionRequest(items=[CaptionItem(image=ref) for ref in images])
        return [parse(each.unwrap().text) for each in self._captioner.caption(request).outcomes]
