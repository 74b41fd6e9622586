"""Pipelines whose UNet lacks the attention that edits control are refused at loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.tiny_pipeline import SUITE, tiny_unet, write_tiny_pipeline

# isort: split
from diffusers import UNet2DConditionModel

from counterpose_core.errors import AttentionNotHooked
from counterpose_services.editor.pipeline import load_pipeline

PLAIN = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
# The published architecture of SD 1.4, and its variants under other settings.
OTHER_ARCHITECTURES: dict[str, tuple[dict[str, Any], str]] = {
    "no attention at all": (PLAIN | {"mid_block_type": None}, "0 self- and 0 cross-attention layers"),
    "self-attention of another block type": (
        {
            "down_block_types": ("AttnDownBlock2D", "DownBlock2D"),
            "up_block_types": ("UpBlock2D", "AttnUpBlock2D"),
            "mid_block_type": None,
        },
        "0 self- and 0 cross-attention layers in transformer blocks, 3 others that no edit controls:"
        " 'down_blocks.0.attentions.0'",
    ),
    "cross-attention outside of transformer blocks": (
        {
            "down_block_types": ("SimpleCrossAttnDownBlock2D", "DownBlock2D"),
            "up_block_types": ("UpBlock2D", "SimpleCrossAttnUpBlock2D"),
            "mid_block_type": "UNetMidBlock2DSimpleCrossAttn",
        },
        "0 self- and 0 cross-attention layers in transformer blocks, 4 others that no edit controls",
    ),
    "a block that no edit controls next to blocks that edits control": (
        {"down_block_types": ("AttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D",) * 2},
        "1 self- and 1 cross-attention layers in transformer blocks, 1 others that no edit controls",
    ),
    "both layers look at the text": (
        {"only_cross_attention": True},
        "3 which are not what their names say: 'down_blocks.0.attentions.0.transformer_blocks.0.attn1'",
    ),
}  # fmt: skip


def other_unet(changes: dict[str, Any]) -> UNet2DConditionModel:
    # Diffusers' own fields begin with an underscore.
    config = {name: value for name, value in tiny_unet().config.items() if not name.startswith("_")}
    return UNet2DConditionModel(**config | {"attention_head_dim": 4} | changes)


@pytest.mark.parametrize("kind", sorted(OTHER_ARCHITECTURES))
def test_weights_without_controllable_attention_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    changes, found = OTHER_ARCHITECTURES[kind]
    write_tiny_pipeline(tmp_path / "tiny")
    unet = other_unet(changes)
    unet.save_pretrained(tmp_path / "tiny" / "unet")
    with pytest.raises(AttentionNotHooked) as refused:
        load_pipeline(SUITE, tmp_path, device="cpu", dtype="float32")
    assert refused.value.detail.startswith("the UNet of 'tiny', of ")
    assert all(block in refused.value.detail for block in unet.config.down_block_types)
    assert found in refused.value.detail


@pytest.mark.parametrize(
    "changes",
    [PLAIN, {"use_linear_projection": True}],
    ids=["attention in the middle alone", "linear projections"],
)
def test_other_transformer_block_architectures_are_accepted(changes: dict[str, Any], tmp_path: Path) -> None:
    write_tiny_pipeline(tmp_path / "tiny")
    other_unet(changes).save_pretrained(tmp_path / "tiny" / "unet")
    assert load_pipeline(SUITE, tmp_path, device="cpu", dtype="float32").identity.id == "tiny"
