"""How much work a call to the editor is, in network evaluations, known before it runs."""

from __future__ import annotations

from counterpose_core.contract.editor import EditorPreset, EditRequest, GenerateRequest, ReconstructRequest
from counterpose_core.contract.tokens import LearnTokensRequest

EditorCall = EditRequest | GenerateRequest | ReconstructRequest | LearnTokensRequest

BACKWARD = 2
"""Evaluations that cost as much as one pass back through the network."""
GUIDED = 2
"""Evaluations of a guided step: with the caption and without it."""


def planned_evaluations(call: EditorCall) -> float:
    """Return about how many network evaluations a call takes, a pass back counted as two.

    An image that was inverted before, or two edits of one image, take fewer; the store is not read for it.
    """
    if isinstance(call, EditRequest):
        return len(call.items) * (_inversion(call.preset) + _edit(call.preset, call.strength))
    if isinstance(call, ReconstructRequest):
        return len(call.items) * _inversion(call.preset)
    if isinstance(call, GenerateRequest):
        return float(len(call.items) * call.steps * (GUIDED if call.guidance > 1 else 1))
    return float(len(call.items) * call.link_steps * call.preset.batch * (1 + BACKWARD))


def one_edit(preset: EditorPreset) -> float:
    """Return about how many evaluations one edit of an image takes that was not inverted before."""
    return _inversion(preset) + _edit(preset, None)


def _inversion(preset: EditorPreset) -> float:
    if preset.inversion == "virtual":
        return 0.0
    if preset.inversion == "null-text":
        # Inverted, rolled out with guidance, and optimised: each inner step goes forward and back.
        return float(preset.steps * (1 + GUIDED + preset.inner_steps * (1 + BACKWARD)))
    return float(preset.steps)


def _edit(preset: EditorPreset, values: tuple[float, ...] | None) -> float:
    # The images of a sweep are one until each leaves at its own share of the steps.
    sweep = preset.self_replace if values is None else values
    branches = 1 + sum(1 - value for value in sweep)
    source = 1 if preset.inversion == "virtual" else 0
    return float(preset.steps * (GUIDED * branches + source))
