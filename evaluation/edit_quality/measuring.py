"""Runs one mode: makes edits, scores them, applies the gate and judges them, as a stress test would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from pydantic import BaseModel, ConfigDict

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditedImage,
    EditItem,
    EditRequest,
    ReconstructItem,
    ReconstructRequest,
)
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.codecs import decode_image
from counterpose_core.stress_test.filters import GateReason, choose
from counterpose_core.suite import Suite
from counterpose_core.types import BlobRef, Cost, Decoder, Selection
from counterpose_miniature.world.dataset import encode_png
from counterpose_miniature.world.grammar import Edit
from counterpose_miniature.world.renderer import render
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import Pipeline, load_pipeline
from counterpose_services.scorer.engine import ScorerEngine
from evaluation.oracle import Oracle
from evaluation.validity.judging import verdict

from .scoring import scored
from .trials import Trial


class Row(BaseModel):
    """One edit in one mode: what became of the variant that the rule chose, and the edit's share of costs.

    ``evaluations``, ``calls``, ``gflop`` and ``cpu_seconds`` are the edit calls' over the edits, inversion
    and decoding included: time of the processor, which a busy machine hardly changes.
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
    strength: float
    direction: float
    reconstruction_db: float
    evaluations: float
    calls: float
    gflop: float
    cpu_seconds: float

    @property
    def key(self) -> tuple[int, str]:
        """What identifies the same edit in every mode."""
        return self.trial, self.edit_type


@dataclass(frozen=True)
class Chosen:
    """The variant that was chosen for an edit, and what the gate says of it."""

    strength: float
    image: BlobRef
    direction: float
    failed: GateReason | None


class Workshop:
    """The models of a suite and the oracle; each mode has its own store, so that modes share no work."""

    def __init__(self, suite: Suite, weights: Path, folder: Path, selection: Selection) -> None:
        self._suite, self._folder, self._selection = suite, folder, selection
        self._pipeline: Pipeline = load_pipeline(suite.editor, weights, device="cpu", dtype="float32")
        self._store = BlobStore(str(folder / "scored"))
        self._scorer = ScorerEngine.load(suite.scorer, weights, self._store)
        self._oracle = Oracle.load()
        self._editors: dict[str, EditorEngine] = {}

    def rows(self, mode: str, preset: PromptToPromptPreset, trial: Trial) -> list[Row]:
        """Edit one scene in one mode, all its edits in one call as a stress test does."""
        editor = self._editor(mode)
        png = encode_png(render(trial.scene))
        image, original = editor.store.put(png), self._store.put(png)
        items = [
            EditItem(image=image, caption=edit.caption, edited_caption=edit.edited_caption)
            for edit in trial.edits
        ]
        work = _Timed(editor)
        made = work.edit(items, preset, decoder="preview" if preset.preview else "full")
        chosen = [
            self._choose(edit, original, self._fetched(editor, edited))
            for edit, edited in zip(trial.edits, made, strict=True)
        ]
        if preset.preview:
            chosen = [
                self._in_full(work, edit, original, item, preset, one)
                for edit, item, one in zip(trial.edits, items, chosen, strict=True)
            ]
        restored = ReconstructRequest(
            items=[ReconstructItem(image=image, caption=items[0].caption)], preset=preset
        )
        error = editor.reconstruct(restored).outcomes[0].unwrap().psnr_db
        share = work.share(len(items))
        return [
            self._row(trial, edit, one, error, share) for edit, one in zip(trial.edits, chosen, strict=True)
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

    def _choose(self, edit: Edit, original: BlobRef, edited: EditedImage) -> Chosen:
        scores = scored(self._scorer, edit, original, [variant.image for variant in edited.variants])
        fractions = [variant.strength for variant in edited.variants]
        gate = self._suite.scorer.gate
        choice = choose(list(zip(fractions, scores, strict=True)), gate, self._selection)
        taken = edited.variants[choice.index]
        direction = scores[choice.index].direction
        return Chosen(taken.strength, taken.image, direction, choice.failed)

    def _in_full(
        self,
        work: _Timed,
        edit: Edit,
        original: BlobRef,
        item: EditItem,
        preset: PromptToPromptPreset,
        one: Chosen,
    ) -> Chosen:
        [full] = work.edit([item], preset, (one.strength,))
        return self._choose(edit, original, self._fetched(work.editor, full))

    def _row(self, trial: Trial, edit: Edit, one: Chosen, error: float, share: Mapping[str, float]) -> Row:
        seen = self._oracle.attributes(decode_image(self._store.get(one.image))[None])[0]
        judged = verdict(edit.caption, edit.edited_caption, trial.scene.attributes(), seen)
        return Row(
            trial=trial.index,
            edit_type=edit.edit_type,
            attribute=edit.attribute,
            kept=one.failed is None,
            failed=one.failed,
            strength=one.strength,
            direction=one.direction,
            reconstruction_db=error,
            **judged._asdict(),
            **share,
        )


class _Timed:
    """An editor whose calls are timed and counted."""

    def __init__(self, editor: EditorEngine) -> None:
        self.editor = editor
        self._seconds, self._cost = 0.0, Cost()

    def edit(
        self,
        items: Sequence[EditItem],
        preset: PromptToPromptPreset,
        values: tuple[float, ...] | None = None,
        decoder: Decoder = "full",
    ) -> list[EditedImage]:
        started = process_time()
        request = EditRequest(items=list(items), preset=preset, strength=values, decoder=decoder)
        response = self.editor.edit(request)
        self._seconds += process_time() - started
        self._cost += response.cost
        return [outcome.unwrap() for outcome in response.outcomes]

    def share(self, edits: int) -> dict[str, float]:
        return {
            "evaluations": self._cost.unet_evaluations / edits,
            "calls": self._cost.unet_calls / edits,
            "gflop": self._cost.flops / 1e9 / edits,
            "cpu_seconds": self._seconds / edits,
        }
