"""One mode at work: edits made, scored, passed through the gate and judged, as a stress test would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import (
    EditedImage,
    EditItem,
    EditorPreset,
    EditRequest,
    ReconstructItem,
    ReconstructRequest,
)
from faultline_core.contract.scorer import EditScores, ScoreItem, ScoreRequest
from faultline_core.filters import choose
from faultline_core.images import decode_image
from faultline_core.perturbations import difference
from faultline_core.suite import Suite
from faultline_core.types import BlobRef, Selection
from faultline_miniature.world.dataset import encode_png
from faultline_miniature.world.grammar import Edit
from faultline_miniature.world.renderer import render
from faultline_services.editor.engine import EditorEngine
from faultline_services.editor.pipeline import Pipeline, load_pipeline
from faultline_services.scorer.engine import ScorerEngine
from oracle import Oracle
from validation.judging import verdict

from .trials import Trial


class Row(BaseModel):
    """One edit in one mode: what became of the variant that the rule chose, and the edit's share of costs.

    ``evaluations``, ``calls`` and ``cpu_seconds`` are the edit call's over its edits, inversion included:
    time of the processor, which a busy machine hardly changes.
    """

    model_config = ConfigDict(frozen=True)

    trial: int
    edit_type: str
    attribute: str
    kept: bool
    failed: str | None
    success: bool
    fidelity: bool
    label: bool
    self_replace: float
    direction: float
    reconstruction_db: float
    evaluations: float
    calls: float
    cpu_seconds: float

    @property
    def key(self) -> tuple[int, str]:
        """What the row has in common with the same edit in another mode."""
        return self.trial, self.edit_type


class Workshop:
    """The models of a suite and the oracle; every mode has a store of its own, so that none shares work."""

    def __init__(self, suite: Suite, weights: Path, folder: Path, selection: Selection) -> None:
        self._suite, self._folder, self._selection = suite, folder, selection
        self._pipeline: Pipeline = load_pipeline(suite.editor, weights, device="cpu", dtype="float32")
        self._store = BlobStore(str(folder / "scored"))
        self._scorer = ScorerEngine.load(suite.scorer, weights, self._store)
        self._oracle = Oracle.load()
        self._editors: dict[str, EditorEngine] = {}

    def rows(self, mode: str, preset: EditorPreset, trial: Trial) -> list[Row]:
        """Edit one scene in one mode, all its edits in one call as a stress test does."""
        editor = self._editor(mode)
        picture = encode_png(render(trial.scene))
        image = editor.store.put(picture)
        items = [
            EditItem(image=image, caption=edit.caption, edited_caption=edit.edited_caption)
            for edit in trial.edits
        ]
        started = process_time()
        response = editor.edit(EditRequest(items=items, preset=preset))
        taken = process_time() - started
        restored = ReconstructRequest(
            items=[ReconstructItem(image=image, caption=items[0].caption)], preset=preset
        )
        error = editor.reconstruct(restored).outcomes[0].unwrap().psnr_db
        share = {
            "evaluations": response.cost.unet_evaluations / len(items),
            "calls": response.cost.unet_calls / len(items),
            "cpu_seconds": taken / len(items),
        }
        original = self._store.put(picture)
        return [
            self._row(trial, edit, original, self._fetched(editor, made.unwrap()), error, share)
            for edit, made in zip(trial.edits, response.outcomes, strict=True)
        ]

    def _editor(self, mode: str) -> EditorEngine:
        if mode not in self._editors:
            store = BlobStore(str(self._folder / f"mode-{len(self._editors)}"))
            self._editors[mode] = EditorEngine(self._pipeline, self._suite.editor, store)
        return self._editors[mode]

    def _fetched(self, editor: EditorEngine, edited: EditedImage) -> EditedImage:
        for variant in edited.variants:
            self._store.put(editor.store.get(variant.image))
        return edited

    def _row(
        self,
        trial: Trial,
        edit: Edit,
        original: BlobRef,
        edited: EditedImage,
        error: float,
        share: Mapping[str, float],
    ) -> Row:
        scores = self._scores(edit, original, [variant.image for variant in edited.variants])
        fractions = [variant.self_replace for variant in edited.variants]
        gate = self._suite.scorer.gate
        choice = choose(list(zip(fractions, scores, strict=True)), gate, self._selection)
        seen = self._oracle.attributes(self._pixels(edited.variants[choice.index].image)[None])[0]
        judged = verdict(edit.caption, edit.edited_caption, trial.scene.attributes(), seen)
        return Row(
            trial=trial.index,
            edit_type=edit.edit_type,
            attribute=edit.attribute,
            kept=choice.failed is None,
            failed=choice.failed,
            self_replace=fractions[choice.index],
            direction=scores[choice.index].direction,
            reconstruction_db=error,
            **judged._asdict(),
            **share,
        )

    def _scores(self, edit: Edit, original: BlobRef, variants: Sequence[BlobRef]) -> list[EditScores]:
        words = difference(edit.caption, edit.edited_caption)
        items = [
            ScoreItem(
                original=original,
                edited=variant,
                caption=edit.caption,
                edited_caption=edit.edited_caption,
                removed=words.removed_text,
                added=words.added_text,
            )
            for variant in variants
        ]
        return [outcome.unwrap() for outcome in self._scorer.score(ScoreRequest(items=items)).outcomes]

    def _pixels(self, ref: BlobRef) -> NDArray[np.uint8]:
        return decode_image(self._store.get(ref))
