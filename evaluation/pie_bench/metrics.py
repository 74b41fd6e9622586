"""PIE-Bench's metrics of an edited image (Ju et al. 2024, section 5), and its distance to the true result.

As in the published evaluation, a place is measured by making the rest of both images black and comparing them
whole: black pixels are equal, so the smaller a place, the better its figures.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from skimage.metrics import structural_similarity

from counterpose_core.errors import InvalidRequest
from counterpose_core.transforms.arrays import Mask, Pixels

Distance = Callable[[npt.NDArray[np.float32], npt.NDArray[np.float32]], float]
"""A distance of two images (H, W, 3) of levels from 0 to 1."""
Metrics = dict[str, float | None]

LEAST_SIDE = 11
"""Side of the window of SSIM."""


def mse(first: Pixels, second: Pixels) -> float:
    """Return the mean squared difference of levels from 0 to 1."""
    return float(np.mean(np.square((first.astype(np.float64) - second) / 255)))


def psnr(first: Pixels, second: Pixels) -> float | None:
    """Return the peak signal-to-noise ratio in dB; None of equal images, which have none."""
    error = mse(first, second)
    return -10 * math.log10(error) if error else None


def ssim(first: Pixels, second: Pixels) -> float | None:
    """Return the mean structural similarity of the channels; None of images smaller than its window.

    Its Gaussian window has a sigma of 1.5 and 11 pixels, its constants are 0.01 and 0.03 (Wang et al. 2004),
    and the border on which it does not fit is left out: as torchmetrics had it in 2023 (its 1.9 keeps the
    border).
    """
    if min(first.shape[:2]) < LEAST_SIDE:
        return None
    return float(
        structural_similarity(
            first,
            second,
            data_range=255,
            channel_axis=2,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
    )


def blackened(image: Pixels, kept: Mask) -> Pixels:
    """Return a copy that is black outside a place (H, W)."""
    return np.asarray(np.where(kept[..., None], image, np.uint8(0)))


def measured(
    source: Pixels,
    edited: Pixels,
    mask: Mask,
    *,
    similarity: Callable[[Pixels], float] | None,
    structure: Distance | None = None,
    perceptual: Distance | None = None,
) -> Metrics:
    """Return PIE-Bench's metrics of an edit.

    ``psnr``, ``mse``, ``ssim`` and ``lpips`` compare what lies outside the mask; None if nothing does.
    ``clip`` and ``clip_edited`` are 100 times the cosine of the edited image, and of its masked part, with
    the edited caption, or 0 if that is below. ``structure`` compares whole images.

    Args:
        source: the image (H, W, 3).
        edited: what the editor made of it, in the same size.
        mask: where it was to change (H, W).
        similarity: the cosine of an image with the edited caption.
        structure: a distance of self-similarities, such as `structure_distance`; None to leave it out.
        perceptual: LPIPS or another; None to leave it out.
    """
    metrics: Metrics = dict.fromkeys(("psnr", "mse", "ssim", "lpips", "clip", "clip_edited", "structure"))
    if not mask.all():
        beside = blackened(source, ~mask), blackened(edited, ~mask)
        metrics |= {"psnr": psnr(*beside), "mse": mse(*beside), "ssim": ssim(*beside)}
        metrics["lpips"] = None if perceptual is None else perceptual(*map(_levels, beside))
    if similarity is not None:
        metrics["clip"] = max(0.0, 100 * similarity(edited))
        if mask.any():
            metrics["clip_edited"] = max(0.0, 100 * similarity(blackened(edited, mask)))
    if structure is not None:
        metrics["structure"] = structure(_levels(source), _levels(edited))
    return metrics


def to_target(edited: Pixels, target: Pixels, mask: Mask) -> Metrics:
    """Return how near an edited image is to the true one: all of it, and what was to change alone."""
    inside = blackened(edited, mask), blackened(target, mask)
    return {
        "target_psnr": psnr(edited, target),
        "target_ssim": ssim(edited, target),
        "target_psnr_edited": psnr(*inside),
    }


def _levels(image: Pixels) -> npt.NDArray[np.float32]:
    return np.asarray(image, dtype=np.float32) / np.float32(255)


def distance_of(spec: str) -> Distance:
    """Return the user's own distance by ``py:module:function``.

    Raises:
        InvalidRequest: there is no such function.
    """
    kind, _, place = spec.partition(":")
    module, _, name = place.rpartition(":")
    if kind != "py" or not module:
        raise InvalidRequest(f"a distance is py:module:function, not {spec!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        function: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidRequest(f"{spec!r} cannot be imported: {error}") from error
    return lambda first, second: float(function(first, second))
