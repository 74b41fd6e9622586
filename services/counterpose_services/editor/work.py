"""How much work a call to the editor is, in network evaluations, known before it runs."""

from __future__ import annotations

from counterpose_core.contract.backend_preset import BACKWARD, GUIDED
from counterpose_core.contract.editor import EditRequest, GenerateRequest, ReconstructRequest
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.tokens import LearnTokensRequest

EditorCall = EditRequest | GenerateRequest | ReconstructRequest | LearnTokensRequest


def planned_evaluations(call: EditorCall) -> float:
    """Return about how many network evaluations a call takes, a pass back counted as two.

    An image that was inverted before, or two edits of one image, take fewer; the store is not read for it.
    """
    if isinstance(call, EditRequest):
        preset = call.preset
        return len(call.items) * (preset.reconstruction_cost + preset.edit_cost(call.values))
    if isinstance(call, ReconstructRequest):
        return len(call.items) * call.preset.reconstruction_cost
    if isinstance(call, GenerateRequest):
        return float(len(call.items) * call.steps * (GUIDED if call.guidance > 1 else 1))
    return float(len(call.items) * call.link_steps * call.preset.batch * (1 + BACKWARD))


def one_edit(preset: EditorPreset) -> float:
    """Return about how many evaluations one edit of an image takes that was not inverted before."""
    return preset.reconstruction_cost + preset.edit_cost(preset.sweep)
