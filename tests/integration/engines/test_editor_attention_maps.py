"""Stable Diffusion 1.4 at 512 pixels, without weights: no step forms a map of 1,000 positions or more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from counterpose_core import torchvision_operators  # noqa: F401
from evaluation.reference.plain_driver import edit

# isort: split
import torch
from diffusers import UNet2DConditionModel
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from counterpose_core.editing.attention_control import cross_edit
from counterpose_core.editing.denoiser import AttentionSite, CountingDenoiser
from counterpose_core.editing.edit import EditSettings, EditTask
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.prompt_alignment import TokenizedPrompt, align
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser
from evaluation.reference.watched_operators import WatchedOperators

LENGTH, WIDTH, SIDE = 77, 768, 64
TABLE = NoiseSchedule().timetable(2)
LARGE = 1024


class FusedKernel(TorchFunctionMode):
    """Fused attention on the meta device, where torch has none: it creates its result and no other tensor."""

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Tensor] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if function is scaled_dot_product_attention:
            query, _, value = args
            return query.new_empty(*query.shape[:-1], value.shape[-1])
        return function(*args, **(kwargs or {}))


class Maps(WatchedOperators):
    """Notes the shapes of all tensors that could be an attention map: (..., n, n), n a thousand or more."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[int, ...]] = set()

    def look(self, operator: object, args: Sequence[object], results: object) -> None:
        for each in results if isinstance(results, tuple | list) else [results]:
            # Weights have two dimensions, whatever is made of a batch has more.
            if isinstance(each, Tensor) and each.ndim > 2 and each.shape[-1] == each.shape[-2] >= LARGE:
                self.seen.add(tuple(each.shape))


class Explicit:
    """Attention as in a textbook."""

    map_bytes = 0

    def attend(self, site: AttentionSite, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return torch.softmax(query @ key.transpose(-1, -2), dim=-1) @ value


@pytest.fixture(scope="module")
def denoiser() -> UNetDenoiser:
    with torch.device("meta"):
        return UNetDenoiser(
            UNet2DConditionModel(
                sample_size=SIDE,
                block_out_channels=(320, 640, 1280, 1280),
                layers_per_block=2,
                cross_attention_dim=WIDTH,
                attention_head_dim=8,
            )
        )


@contextmanager
def watched() -> Iterator[Maps]:
    with torch.no_grad(), FusedKernel(), Maps() as maps:
        yield maps


def test_the_watcher_sees_an_explicit_map(denoiser: UNetDenoiser) -> None:
    latents, text = torch.empty(1, 4, SIDE, SIDE, device="meta"), torch.empty(1, LENGTH, WIDTH, device="meta")
    with watched() as maps:
        denoiser(latents, torch.empty(1, dtype=torch.int64, device="meta"), text, Explicit())
    assert {shape[-1] for shape in maps.seen} == {32**2, 64**2}


def test_controlled_and_plain_steps_form_no_large_map(denoiser: UNetDenoiser) -> None:
    words = [TokenizedPrompt((0, 5, word, 1), (None, 0, 1, None)) for word in (6, 9)]
    controls = cross_edit(align(*words), LENGTH, word_weight=2.0)
    empty = torch.empty(2, 3, 4, SIDE, SIDE, device="meta")
    inverted = Inverted(empty, torch.empty(2, 1, LENGTH, WIDTH, device="meta"), torch.zeros(2, 2))
    text = torch.empty(2, LENGTH, WIDTH, device="meta")
    tasks = [EditTask(source, text[0], controls) for source in (0, 1, 1)]
    # The first of two steps injects self-attention and edits cross-attention, the second does neither.
    settings = EditSettings(guidance=7.5, cross_replace=0.5, self_replace=(0.5,))
    counting = CountingDenoiser(denoiser)
    with watched() as maps:
        edited = edit(counting, TABLE, inverted, text, tasks, settings)
    assert maps.seen == set()
    assert edited.latents.shape == (3, 1, 4, SIDE, SIDE)
    # Sources and conditional targets, in cross-attention alone: 8 heads of 5, 5, 5 and 1 layers.
    positions = 5 * 64**2 + 5 * 32**2 + 5 * 16**2 + 8**2
    assert counting.cost.attention_map_bytes == 5 * 8 * positions * LENGTH * 4
