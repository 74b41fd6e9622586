"""Converts LANCE's released adapter to PEFT's format: query and value of every layer, for transformers.

    python -m counterpose_services.perturber.convert_adapter lit-llama-lora.pth \
        --model /models/huggyllama/llama-7b --out /models/lance/lora

The file is lit-llama's: a layer's query, key and value are one matrix there, of which the adapter changes the
first and the last third. Its A's and B's lie on top of each other, the query's first. Rows of the query are
pairs of neighbours that are rotated together; transformers rotates the first half of a head with the second.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig

from counterpose_core.errors import CounterposeError, ModelFormatRefused, UnknownModel

ALPHA = 16.0
"""Of LANCE's training; the file does not say it."""

_NAME = re.compile(r"transformer\.h\.(\d+)\.attn\.c_attn\.lora_([AB])")
_PARTS = ("q_proj", "v_proj")


@dataclass(frozen=True)
class Base:
    """The shape of the model that the adapter is for."""

    layers: int
    heads: int
    width: int

    @classmethod
    def of(cls, folder: Path) -> Base:
        """Read it from a model's configuration.

        Raises:
            UnknownModel: there is no model in the folder.
            ModelFormatRefused: its keys have fewer heads than its queries; lit-llama's have as many.
        """
        if not (folder / "config.json").is_file():
            raise UnknownModel(f"there is no model in {str(folder)!r}: it has no config.json")
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        heads = int(config.num_attention_heads)
        if getattr(config, "num_key_value_heads", heads) not in (None, heads):
            raise ModelFormatRefused(
                f"the model in {str(folder)!r} shares keys among heads; lit-llama's adapters are for LLaMA 1"
            )
        return cls(int(config.num_hidden_layers), heads, int(config.hidden_size))


def convert(adapter: Mapping[str, Tensor], base: Base) -> dict[str, Tensor]:
    """Return the adapter's matrices under PEFT's names: A (rank, width) and B (width, rank).

    Args:
        adapter: lit-llama's: for each layer A (2 rank, width) and B (2 width, rank).
        base: the model that it is for.

    Raises:
        ModelFormatRefused: the layout is another, or the adapter is for a model of another shape.
    """
    found: dict[tuple[int, str], Tensor] = {}
    for name, matrix in adapter.items():
        told = _NAME.fullmatch(name)
        if told is None:
            raise ModelFormatRefused(
                f"the adapter has a matrix {name!r}; lit-llama's have transformer.h.<layer>.attn.c_attn."
                "lora_A and lora_B alone"
            )
        found[int(told[1]), told[2]] = matrix
    wanted = {(layer, side) for layer in range(base.layers) for side in "AB"}
    if set(found) != wanted:
        layers = len({layer for layer, _ in found})
        raise ModelFormatRefused(
            f"the adapter has {layers} layers, the model {base.layers}: it is of another base"
        )
    converted: dict[str, Tensor] = {}
    for layer in range(base.layers):
        down, up = found[layer, "A"], found[layer, "B"]
        _check(layer, down, up, base)
        for part, a, b in zip(_PARTS, down.chunk(2), up.chunk(2), strict=True):
            rows = _halves(b, base.heads) if part == "q_proj" else b
            name = f"base_model.model.model.layers.{layer}.self_attn.{part}"
            converted[f"{name}.lora_A.weight"] = a.contiguous()
            converted[f"{name}.lora_B.weight"] = rows.contiguous()
    return converted


def convert_file(file: Path, model: Path, out: Path, *, alpha: float = ALPHA) -> None:
    """Write the adapter in ``file`` as a folder that PEFT and vLLM load.

    Args:
        file: lit-llama's file, a checkpoint of PyTorch; only tensors of it are read.
        model: folder of the base.
        out: folder of the adapter; made if missing.
        alpha: the scale of the training: products are multiplied by alpha / rank.

    Raises:
        UnknownModel: there is no such file, or no model.
        ModelFormatRefused: it is no checkpoint of tensors, or of another layout or shape.
    """
    base = Base.of(model)
    converted = convert(_read(file), base)
    rank = converted["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"].shape[0]
    out.mkdir(parents=True, exist_ok=True)
    save_file(converted, out / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = LoraConfig(
        r=rank, lora_alpha=int(alpha), target_modules=list(_PARTS), task_type="CAUSAL_LM", inference_mode=True
    )
    settings.save_pretrained(str(out))
    about = {"converted": file.name, "layout": "lit-llama", "rank": rank, "alpha": alpha}
    (out / "converted.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _check(layer: int, down: Tensor, up: Tensor, base: Base) -> None:
    rank = up.shape[-1]
    if down.ndim != 2 or up.ndim != 2 or down.shape != (2 * rank, base.width) or len(up) != 2 * base.width:
        raise ModelFormatRefused(
            f"layer {layer} of the adapter has A {tuple(down.shape)} and B {tuple(up.shape)}; a model of "
            f"width {base.width} takes A (2 rank, {base.width}) and B ({2 * base.width}, rank)"
        )


def _halves(rows: Tensor, heads: int) -> Tensor:
    """Put the first of each pair of neighbours into the first half of its head, the second into the other."""
    width, rank = rows.shape
    return rows.reshape(heads, width // heads // 2, 2, rank).transpose(1, 2).reshape(width, rank)


def _read(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise UnknownModel(f"there is no file {str(file)!r}")
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ModelFormatRefused(f"{file.name!r} is no checkpoint of tensors alone: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        raise ModelFormatRefused(f"{file.name!r} holds something else than named tensors")
    return {str(name): matrix for name, matrix in found.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert one file; return 0, or 1 if it is refused."""
    parser = argparse.ArgumentParser(prog="python -m counterpose_services.perturber.convert_adapter")
    parser.add_argument("file", type=Path, help="lit-llama's adapter, such as lit-llama-lora-finetuned.pth")
    parser.add_argument("--model", type=Path, required=True, help="folder of the base, LLaMA-7B")
    parser.add_argument("--out", type=Path, required=True, help="folder of the converted adapter")
    parser.add_argument("--alpha", type=float, default=ALPHA, help="alpha of the training (16)")
    given = parser.parse_args(arguments)
    try:
        convert_file(given.file, given.model, given.out, alpha=given.alpha)
    except CounterposeError as error:
        sys.stderr.write(f"{error.detail}\n")
        return 1
    sys.stdout.write(f"{given.out}: an adapter that PEFT and vLLM load\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
