"""Runs one mode: makes edits, scores them, applies the gate and judges them, as a stress test would."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.codecs import decode_image
from counterpose_core.suite import Suite
from counterpose_core.types import Selection
from counterpose_miniature.world.dataset import encode_png
from counterpose_miniature.world.renderer import render
from evaluation.oracle import Oracle
from evaluation.validity.judging import verdict

from .editing import Editing
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


class Workshop:
    """The models of a suite and the oracle; each mode has its own store, so that modes share no work."""

    def __init__(self, suite: Suite, folder: Path, selection: Selection) -> None:
        self._suite, self._folder, self._selection = suite, folder, selection
        self._oracle = Oracle.load()
        self._modes: dict[str, Editing] = {}

    def rows(self, mode: str, preset: PromptToPromptPreset, trial: Trial) -> list[Row]:
        """Edit one scene in one mode, all its edits in one call as a stress test does."""
        if mode not in self._modes:
            folder = self._folder / f"mode-{len(self._modes)}"
            self._modes[mode] = Editing(self._suite, preset, folder, self._selection)
        editing, png = self._modes[mode], encode_png(render(trial.scene))
        choices, costs = editing.chosen(png, [(edit.caption, edit.edited_caption) for edit in trial.edits])
        error = editing.reconstruction_db(png, trial.edits[0].caption)
        truth = trial.scene.attributes()
        rows = []
        for edit, choice in zip(trial.edits, choices, strict=True):
            seen = self._oracle.attributes(decode_image(editing.store.get(choice.image))[None])[0]
            row = {
                "trial": trial.index,
                "edit_type": edit.edit_type,
                "attribute": edit.attribute,
                "kept": choice.failed is None,
                "failed": choice.failed,
                "strength": choice.strength,
                "direction": choice.direction,
                "reconstruction_db": error,
                **verdict(edit.caption, edit.edited_caption, truth, seen)._asdict(),
                **costs,
            }
            rows.append(Row.model_validate(row))
        return rows
