"""E7: the largest attention map of null-text inversion and edits at 512 pixels, by every tensor's shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterpose_core import torchvision_operators  # noqa: F401
from evaluation.reference.plain_driver import edit, null_text_inversion

# isort: split
import torch
from diffusers import UNet2DConditionModel
from torch import Tensor
from torch.utils._pytree import tree_leaves

from counterpose_core.editing.attention_control import cross_edit
from counterpose_core.editing.edit import EditSettings, EditTask
from counterpose_core.editing.inversion.null_text import NullTextSettings
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.prompt_alignment import TokenizedPrompt, align
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser
from evaluation.benchmarks.bench import Bench
from evaluation.benchmarks.report import Row, at_most, row
from evaluation.reference.toy_denoisers import draw
from evaluation.reference.watched_operators import WatchedOperators

SIDE, LENGTH, WIDTH = 64, 77, 16
"""Latents of 512 pixels; tokens of CLIP."""
LARGEST = 1023
"""No attention map of 1024 by 1024 positions or more may occur."""


class LargestTail(WatchedOperators):
    """Remembers the largest n for which some result's last two sides are n or more."""

    def __init__(self) -> None:
        super().__init__()
        self.side = 0

    def look(self, operator: Any, args: Sequence[Any], results: Any) -> None:
        """Look at the results."""
        for result in tree_leaves(results):
            if isinstance(result, Tensor) and result.dim() >= 2:
                self.side = max(self.side, min(result.shape[-2:]))


def network() -> UNetDenoiser:
    """SD 1.4's layers and positions with few channels: maps do not depend on these."""
    generator = torch.random.fork_rng(devices=[])
    with generator:
        torch.manual_seed(0)
        unet = UNet2DConditionModel(
            sample_size=SIDE, block_out_channels=(16, 16, 16, 16), layers_per_block=2, norm_num_groups=4,
            cross_attention_dim=WIDTH, attention_head_dim=2,
            down_block_types=(*("CrossAttnDownBlock2D",) * 3, "DownBlock2D"),
            up_block_types=("UpBlock2D", *("CrossAttnUpBlock2D",) * 3),
        )  # fmt: skip
    return UNetDenoiser(unet)


def rows(_: Bench) -> list[Row]:
    """Invert and edit an image in two steps, injection and edited maps on in the first."""
    denoiser, table = network(), NoiseSchedule().timetable(2)
    clean = draw(1, 4, SIDE, SIDE, seed=5, dtype=torch.float32)
    text = draw(1, LENGTH, WIDTH, seed=6, dtype=torch.float32)
    null = draw(LENGTH, WIDTH, seed=9, dtype=torch.float32)
    source, target = (TokenizedPrompt((0, 5, word, 1), (None, 0, 1, None)) for word in (6, 7))
    cross = cross_edit(align(source, target), LENGTH, word_weight=2.0)
    with LargestTail() as largest:
        settings = NullTextSettings(inner_steps=1)
        inverted = null_text_inversion(denoiser, table, clean, text, null, settings)
        knobs = EditSettings(guidance=7.5, cross_replace=1.0, self_replace=(0.5, 1.0))
        edit(denoiser, table, inverted, text, [EditTask(0, text[0], cross)], knobs)
    measure = "largest n of a tensor ending in (n, n), null-text and edit, SD 1.4's layers at 512 pixels"
    return [row("E7", measure, [float(largest.side)], at_most(LARGEST))]
