"""Whether a LoRA adapter fits the base that a suite names, told from the headers of their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open

from counterpose_core.errors import ModelFormatRefused

CONFIGURATION = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
LORA = "LORA"
_PREFIX = "base_model.model."
_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"

Shapes = Mapping[str, tuple[int, ...]]


def require_fitting_adapter(adapter: Path, base: Path, *, name: str, base_name: str) -> None:
    """Raise an error if an adapter was made for another base, or is of another kind; PEFT's are long.

    Args:
        adapter: the adapter's folder, in PEFT's layout.
        base: the base's folder, with safetensors.
        name: what the suite calls the adapter.
        base_name: what it calls the base.

    Raises:
        ModelFormatRefused: the adapter is no LoRA, has another rank than its configuration says, or changes
            layers that the base does not have, or has with another shape.
    """
    described = _described(adapter, name)
    if (kind := described.get("peft_type")) != LORA:
        raise ModelFormatRefused(
            f"the adapter {name!r} is {kind!r}, not {LORA!r}; convert it or train another"
        )
    found, known = _shapes([adapter / WEIGHTS]), _shapes(sorted(base.glob("*.safetensors")))
    downs = [key for key in found if key.endswith(_DOWN)]
    if not downs:
        first = next(iter(found), "nothing")
        raise ModelFormatRefused(
            f"the adapter {name!r} holds {first!r} and no {_DOWN!r}; python -m "
            "counterpose_services.perturber.convert_adapter converts lit-llama's layout"
        )
    for key in downs:
        layer = key.removeprefix(_PREFIX).removesuffix(_DOWN)
        _require_layer(layer, found, known, name=name, base_name=base_name)
        _require_rank(layer, found[key][0], described, name)


def _described(adapter: Path, name: str) -> dict[str, Any]:
    try:
        described = json.loads((adapter / CONFIGURATION).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFormatRefused(f"the adapter {name!r} has no readable {CONFIGURATION}; add it") from error
    if not isinstance(described, dict):
        raise ModelFormatRefused(f"the {CONFIGURATION} of the adapter {name!r} is no JSON object")
    return described


def _shapes(files: list[Path]) -> Shapes:
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        with safe_open(file, framework="np") as opened:
            names = opened.keys()
            found |= {key: tuple(opened.get_slice(key).get_shape()) for key in names}
    return found


def _require_layer(layer: str, found: Shapes, known: Shapes, *, name: str, base_name: str) -> None:
    matrix = known.get(f"{layer}.weight")
    if matrix is None:
        raise ModelFormatRefused(
            f"the adapter {name!r} changes {layer!r}, which {base_name!r} does not have; name the base that "
            "it was trained on"
        )
    _, inputs = found[f"{_PREFIX}{layer}{_DOWN}"]
    outputs, _ = found.get(f"{_PREFIX}{layer}{_UP}", (0, 0))
    if (outputs, inputs) != matrix:
        raise ModelFormatRefused(
            f"the adapter {name!r} changes a matrix of {outputs} x {inputs} in {layer!r}, and that of "
            f"{base_name!r} is {' x '.join(map(str, matrix))}; name the base that it was trained on"
        )


def _require_rank(layer: str, rank: int, described: Mapping[str, Any], name: str) -> None:
    # Single layers may have ranks of their own, by patterns that only PEFT reads.
    if not described.get("rank_pattern") and rank != described.get("r"):
        raise ModelFormatRefused(
            f"the adapter {name!r} has rank {rank} in {layer!r} and {described.get('r')!r} in its "
            f"{CONFIGURATION}; take both from the same training"
        )
