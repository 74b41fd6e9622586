"""LANCE's adapter converted: the same change of every layer as in lit-llama, by its own rotation of pairs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peft import PeftModel
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_services.perturber.convert_adapter import Base, convert, convert_file, main

LAYERS, HEADS, WIDTH, RANK, ALPHA, PLACES = 2, 4, 32, 3, 6.0, 7
SIDE = WIDTH // HEADS


@pytest.fixture
def model(tmp_path: Path) -> Path:
    config = LlamaConfig(
        vocab_size=50, hidden_size=WIDTH, intermediate_size=48, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def released(layers: int = LAYERS, width: int = WIDTH) -> dict[str, Tensor]:
    """An adapter in the layout of lit-llama's files."""
    draw = torch.Generator().manual_seed(1)
    found = {}
    for layer in range(layers):
        name = f"transformer.h.{layer}.attn.c_attn.lora_"
        found[f"{name}A"] = torch.randn(2 * RANK, width, generator=draw)
        found[f"{name}B"] = torch.randn(2 * width, RANK, generator=draw)
    return found


def rotated_in_pairs(heads: Tensor) -> Tensor:
    """Rotate neighbours together by LLaMA's angles, as lit-llama does: heads (places, heads, side)."""
    angles = torch.outer(torch.arange(PLACES), 10_000.0 ** (-torch.arange(0, SIDE, 2) / SIDE))[:, None]
    first, second = heads[..., 0::2], heads[..., 1::2]
    turned = (first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin())
    return torch.stack(turned, dim=-1).flatten(-2)


def halves_to_pairs(rows: Tensor) -> Tensor:
    """The rows of a query or key of transformers in lit-llama's order."""
    return rows.reshape(HEADS, 2, SIDE // 2, WIDTH).transpose(1, 2).reshape(WIDTH, WIDTH)


def test_converted_attention_is_lit_llama_s(model: Path, tmp_path: Path) -> None:
    torch.save(released(), tmp_path / "released.pth")
    convert_file(tmp_path / "released.pth", model, tmp_path / "lora", alpha=ALPHA)
    plain = LlamaForCausalLM.from_pretrained(model)
    adapted = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(model), str(tmp_path / "lora"))
    merged = adapted.merge_and_unload()
    inputs = torch.randn(1, PLACES, WIDTH, generator=torch.Generator().manual_seed(2))
    cos, sin = plain.model.rotary_emb(inputs, torch.arange(PLACES)[None])
    for layer, (before, after) in enumerate(zip(plain.model.layers, merged.model.layers, strict=True)):
        down = released()[f"transformer.h.{layer}.attn.c_attn.lora_A"]
        up = released()[f"transformer.h.{layer}.attn.c_attn.lora_B"]
        scale = ALPHA / RANK
        # As lit-llama computes: its own matrices are those of transformers with rows in pairs.
        query = halves_to_pairs(before.self_attn.q_proj.weight) + scale * up[:WIDTH] @ down[:RANK]
        key = halves_to_pairs(before.self_attn.k_proj.weight)
        value = before.self_attn.v_proj.weight + scale * up[WIDTH:] @ down[RANK:]
        theirs = [
            rotated_in_pairs((inputs[0] @ each.T).view(PLACES, HEADS, SIDE)).transpose(0, 1)
            for each in (query, key)
        ]
        ours = apply_rotary_pos_emb(
            *(
                each(inputs).view(1, PLACES, HEADS, SIDE).transpose(1, 2)
                for each in (after.self_attn.q_proj, after.self_attn.k_proj)
            ),
            cos,
            sin,
        )
        scores = ours[0][0] @ ours[1][0].transpose(-1, -2)
        torch.testing.assert_close(scores, theirs[0] @ theirs[1].transpose(-1, -2), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(after.self_attn.v_proj.weight, value, rtol=1e-5, atol=1e-5)
        assert torch.equal(after.self_attn.k_proj.weight, before.self_attn.k_proj.weight)


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        (released(layers=3), "has 3 layers, the model 2"),
        (released(width=48), r"layer 0 of the adapter has A \(6, 48\)"),
        (released() | {"transformer.h.0.attn.c_proj.lora_A": torch.zeros(3, WIDTH)}, "c_proj.lora_A"),
        ({"q_proj.lora_A.weight": torch.zeros(3, WIDTH)}, "q_proj.lora_A.weight"),
        (
            released() | {"transformer.h.1.attn.c_attn.lora_A": torch.zeros(RANK, WIDTH)},
            "layer 1 of the adapter",
        ),
    ],
)
def test_an_adapter_of_another_base_or_layout_is_refused(adapter: dict[str, Tensor], said: str) -> None:
    with pytest.raises(ModelFormatRefused, match=said):
        convert(adapter, Base(LAYERS, HEADS, WIDTH))


def test_what_is_no_adapter_is_refused_by_name(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnknownModel, match=r"config\.json"):
        Base.of(tmp_path)
    with pytest.raises(UnknownModel, match=r"missing\.pth"):
        convert_file(tmp_path / "missing.pth", model, tmp_path / "out")
    (tmp_path / "text.pth").write_text("no checkpoint", encoding="utf-8")
    torch.save({"model": released()}, tmp_path / "nested.pth")
    torch.save({"path": tmp_path}, tmp_path / "object.pth")
    for name in ("text.pth", "nested.pth", "object.pth"):
        assert main([str(tmp_path / name), "--model", str(model), "--out", str(tmp_path / "out")]) == 1
        assert name in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
