"""A folder's image processor, read by transformers, or refused where its images are not of one size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
from torch import Tensor
from transformers import AutoImageProcessor

from counterpose_core.errors import BadBackendOutput, ModelFormatRefused
from counterpose_core.failure import in_a_line
from counterpose_core.images.codecs import Pixels

Preparation = Callable[[Pixels], Tensor]
"""From an image (H, W, 3), uint8, to what the network takes of it (C, h, w)."""

_PIXELS = "pixel_values"
_TRIALS = ((64, 96, 3), (96, 64, 3))


def load_image_processor(folder: Path) -> Preparation:
    """Load the image processor that a folder holds; code of the folder is never run.

    Raises:
        ModelFormatRefused: transformers cannot read it, or it gives something else than images of one size.
    """
    try:
        processor = AutoImageProcessor.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        given = [_processed(processor, np.zeros(shape, np.uint8)) for shape in _TRIALS]
        shapes = {tuple(one[_PIXELS].shape) for one in given if _PIXELS in one}
    # Whatever the library does with a value that it does not expect.
    except Exception as error:
        raise ModelFormatRefused(
            f"the folder {folder.name!r} has no image processor that transformers reads: "
            f"{in_a_line(error)}; add its own preprocessor_config.json"
        ) from error
    kind = type(processor).__name__
    if others := [name for name in given[0] if name != _PIXELS]:
        raise ModelFormatRefused(
            f"the image processor {kind!r} in {folder.name!r} gives {others[0]!r} beside or in place of the "
            "pixels, which is not supported; take a model whose processor gives pixels alone"
        )
    if len(shapes) != 1 or any(len(shape) != 4 or shape[0] != 1 for shape in shapes):
        raise ModelFormatRefused(
            f"the image processor {kind!r} in {folder.name!r} turns images into {sorted(shapes)}, not into "
            "images of one size; give its preprocessor_config.json a 'size' of height and width"
        )
    size = given[0][_PIXELS][0].shape

    def prepared(pixels: Pixels) -> Tensor:
        try:
            first: Tensor = _processed(processor, pixels)[_PIXELS][0]
            if first.shape != size:
                raise ValueError(f"it gives {tuple(first.shape)}, not {tuple(size)}")
        except Exception as error:
            height, width = pixels.shape[:2]
            raise BadBackendOutput(
                f"the image processor {kind!r} fails on an image of {width} x {height} pixels: "
                f"{in_a_line(error)}"
            ) from error
        return first

    return prepared


def _processed(processor: Any, pixels: Pixels) -> Any:
    # Told, not guessed: an image of one or three rows passes for one whose channels come first.
    return processor(images=[pixels], return_tensors="pt", input_data_format="channels_last")
