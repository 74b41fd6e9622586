"""Weights of another architecture than their configuration are refused with one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import UNet2DConditionModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, CLIPTextConfig, CLIPTextModel, LlamaConfig, LlamaForCausalLM

from counterpose_core.errors import ModelFormatRefused
from counterpose_services.models.fitting_weights import load_fitting
from counterpose_services.models.model_folder import weight_files
from fakes.tiny_models.llama import save_llama
from fakes.tiny_pipeline import tiny_unet

LLAMA, UNET = "llama", "unet"
KINDS: dict[str, Any] = {LLAMA: AutoModelForCausalLM, UNET: UNet2DConditionModel}


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    save_llama(tmp_path / LLAMA)
    tiny_unet().save_pretrained(tmp_path / UNET)
    return tmp_path


@pytest.mark.fault("B45")
@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        (LLAMA, {"num_hidden_layers": 3}, "they lack 'model.layers.2."),
        (LLAMA, {"num_hidden_layers": 1}, "they go on with 'model.layers.1."),
        (LLAMA, {"intermediate_size": 64}, "their shapes differ"),
        (UNET, {"cross_attention_dim": 32}, "their shapes differ"),
        (
            UNET,
            {"transformer_layers_per_block": 2},
            "they lack 'down_blocks.0.attentions.0.",
        ),
    ],
    ids=["a layer more", "a layer less", "another width", "another text encoder", "a block more"],
)
def test_another_architecture_is_refused(
    name: str, changes: dict[str, object], why: str, folders: Path
) -> None:
    file = folders / name / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(ModelFormatRefused) as refused:
        load_fitting(KINDS[name], folders / name)
    assert f"the weights in {str(folders / name)!r} do not fit its config.json: {why}" in refused.value.detail
    assert "\n" not in refused.value.detail


def test_unused_buffers_of_older_releases_are_accepted(folders: Path) -> None:
    file = folders / LLAMA / "model.safetensors"
    tensors = load_file(file)
    older = {"model.layers.0.self_attn.rotary_emb.inv_freq": next(iter(tensors.values())).clone()}
    save_file(tensors | older, file, metadata={"format": "pt"})
    assert load_fitting(KINDS[LLAMA], folders / LLAMA).config.num_hidden_layers == 2


def test_a_further_layer_under_a_prefix_is_refused(folders: Path) -> None:
    config = CLIPTextConfig(
        vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=2, num_attention_heads=2
    )
    CLIPTextModel(config).save_pretrained(folders / "clip")
    weights = folders / "clip" / "model.safetensors"
    named = {f"text_model.{name}": tensor for name, tensor in load_file(weights).items()}
    save_file(named, weights, metadata={"format": "pt"})
    assert load_fitting(CLIPTextModel, folders / "clip").config.num_hidden_layers == 2
    file = folders / "clip" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"num_hidden_layers": 1}))
    with pytest.raises(ModelFormatRefused, match=r"they go on with 'encoder\.layers\.1\."):
        load_fitting(CLIPTextModel, folders / "clip")


def test_a_variant_alone_is_loaded(tmp_path: Path) -> None:
    config = LlamaConfig(
        hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, vocab_size=16
    )
    saved = LlamaForCausalLM(config).half()
    saved.save_pretrained(tmp_path / "net", variant="fp16")
    assert [file.name for file in weight_files(tmp_path / "net")] == ["model.fp16.safetensors"]
    loaded = load_fitting(LlamaForCausalLM, tmp_path / "net", dtype=torch.float32)
    assert loaded.lm_head.weight.equal(saved.lm_head.weight.float())
