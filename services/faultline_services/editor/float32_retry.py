"""Null-text embeddings that half precision spoilt: found, and optimised once more in float32."""

from __future__ import annotations

from torch import Tensor

from faultline_core.contract.editor import EditorPreset
from faultline_core.editing.denoiser import Cancellation, CountingDenoiser, finite_rows
from faultline_core.editing.inversion import Inverted
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.types import Cost
from faultline_services.editor.inversions import invert
from faultline_services.editor.pipeline import Pipeline

HALF_PRECISIONS = ("float16", "bfloat16")


def spoilt_rows(inverted: Inverted, preset: EditorPreset, precision: str) -> list[int]:
    """Return the pictures whose embedding a UNet of ``precision`` lost and float32 may yet find."""
    if preset.inversion != "null-text" or precision not in HALF_PRECISIONS:
        return []
    # The path to noise needs no gradient: where that is not finite, no edit in this precision will be.
    reached = finite_rows(inverted.trajectory[:, :1])
    rows: list[int] = (reached & ~inverted.finite).nonzero().flatten().tolist()
    return rows


def retry_in_float32(
    pipeline: Pipeline,
    counting: CountingDenoiser,
    table: Timetable,
    preset: EditorPreset,
    latents: Tensor,
    text: Tensor,
    cancelled: Cancellation,
) -> list[tuple[Inverted, Cost]]:
    """Invert latents (B, C, H, W) under captions (B, L, D) anew, the weights in float32 meanwhile.

    Returns:
        Each picture's inversion, finite or not, and what this took, the retry itself among it.
    """
    with pipeline.denoiser.in_float32():
        inverted, costs = invert(counting, table, preset, latents, text, pipeline.null, cancelled)
    return [(inverted.select(row), cost + Cost(float32_retries=1)) for row, cost in enumerate(costs)]
