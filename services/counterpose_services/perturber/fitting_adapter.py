"""Whether a LoRA adapter fits the base that a suite names, told from its header and their configurations."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import safe_open

from counterpose_core.errors import ModelFormatRefused

CONFIGURATION = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
LORA = "LORA"
_PREFIX = "base_model.model."
_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"

Shapes = Mapping[str, tuple[int, ...]]


class _Adapted(NamedTuple):
    """Shapes of the tensors that an adapter's configuration asks for, and of all of the adapted base."""

    adapter: Shapes
    whole: Shapes
    modules: frozenset[str]


def require_fitting_adapter(adapter: Path, base: Path, *, name: str, base_name: str) -> None:
    """Raise an error unless an adapter has each tensor that its configuration asks for, and no other.

    PEFT only warns of a tensor that is missing, and leaves that layer the base's; it passes over one that no
    layer takes.

    Args:
        adapter: the adapter's folder, in PEFT's layout.
        base: the base's folder.
        name: what the suite calls the adapter.
        base_name: what it calls the base.

    Raises:
        ModelFormatRefused: the adapter is no LoRA, is of another layout or for another base, has another rank
            than its configuration says, or lacks a tensor; the message names the layer.
    """
    described = _described(adapter, name)
    if (kind := described.get("peft_type")) != LORA:
        raise ModelFormatRefused(
            f"the adapter {name!r} is {kind!r}, not {LORA!r}; convert it or train another"
        )
    shapes = _shapes(adapter / WEIGHTS, name)
    if not any(".lora_" in key and key.endswith(".weight") for key in shapes):
        first = next(iter(shapes), "nothing")
        raise ModelFormatRefused(
            f"the adapter {name!r} holds {first!r} and no {_DOWN!r}; python -m "
            "counterpose_services.perturber.convert_adapter converts lit-llama's layout"
        )
    if stranger := next((key for key in shapes if not key.startswith(_PREFIX)), None):
        raise ModelFormatRefused(
            f"the adapter {name!r} holds {stranger!r}, and PEFT's names begin with {_PREFIX!r}; save it by "
            "PEFT's save_pretrained, or rename its tensors"
        )
    wanted = _adapted(adapter, base, name, base_name)
    for key, shape in shapes.items():
        _require_place(key, shape, shapes, wanted, name=name, base_name=base_name)
    if missing := [key for key in wanted.adapter if key not in shapes]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelFormatRefused(
            f"the adapter {name!r} lacks {missing[0].removeprefix(_PREFIX)!r}{more}, which its "
            f"{CONFIGURATION} asks for in {base_name!r}; take both from the same training"
        )


def _described(adapter: Path, name: str) -> dict[str, Any]:
    try:
        described = json.loads((adapter / CONFIGURATION).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFormatRefused(f"the adapter {name!r} has no readable {CONFIGURATION}; add it") from error
    if not isinstance(described, dict):
        raise ModelFormatRefused(f"the {CONFIGURATION} of the adapter {name!r} is no JSON object")
    return described


def _shapes(file: Path, name: str) -> Shapes:
    if not file.is_file():
        raise ModelFormatRefused(f"the adapter {name!r} has no {WEIGHTS}; add it")
    with safe_open(file, framework="np") as opened:
        return {key: tuple(opened.get_slice(key).get_shape()) for key in opened.keys()}  # noqa: SIM118


def _adapted(adapter: Path, base: Path, name: str, base_name: str) -> _Adapted:
    """Let PEFT adapt the base without numbers: it alone reads its patterns of layers and ranks."""
    # Imported here: they take seconds, and who only names the folders to a server of models needs neither.
    import torch
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        settings = LoraConfig.from_pretrained(str(adapter))
        # Some kinds begin with numbers of the base, which are not there.
        settings.init_lora_weights = False
        config = AutoConfig.from_pretrained(base, trust_remote_code=False)
        # What they warn of, they say again when the weights are loaded.
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            plain = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
            # What the suite names as the base may have another name than it had in training.
            settings.base_model_name_or_path = plain.name_or_path
            model = get_peft_model(plain, settings)
            asked = get_peft_model_state_dict(model, save_embedding_layers=False)
    # Whatever the libraries do with a value that they do not expect.
    except Exception as error:
        raise ModelFormatRefused(
            f"PEFT refuses the {CONFIGURATION} of the adapter {name!r} on {base_name!r}: {error}"
        ) from error
    return _Adapted(
        {key: tuple(each.shape) for key, each in asked.items()},
        {key: tuple(each.shape) for key, each in model.state_dict().items() if ".lora_" not in key},
        frozenset(key for key, _ in model.named_modules()),
    )


def _require_place(
    key: str, shape: tuple[int, ...], shapes: Shapes, wanted: _Adapted, *, name: str, base_name: str
) -> None:
    layer = key.partition(".lora_")[0]
    called = layer.removeprefix(_PREFIX)
    # Beside its own tensors, PEFT reads tables of words of the base.
    size = wanted.adapter.get(key, wanted.whole.get(key))
    if size == shape:
        return
    if size is None and layer not in wanted.modules:
        raise ModelFormatRefused(
            f"the adapter {name!r} changes {called!r}, which {base_name!r} does not have; name the base that "
            "it was trained on"
        )
    if size is None:
        raise ModelFormatRefused(
            f"the adapter {name!r} has {key.removeprefix(_PREFIX)!r}, which its {CONFIGURATION} does not "
            "name; take both from the same training"
        )
    down, up = f"{layer}{_DOWN}", f"{layer}{_UP}"
    if key in (down, up) and down in shapes and up in shapes and len(shape) == 2:
        ours, theirs = ((part[up][:1] + part[down][1:], part[down][0]) for part in (shapes, wanted.adapter))
        if ours[0] == theirs[0]:
            raise ModelFormatRefused(
                f"the adapter {name!r} has rank {ours[1]} in {called!r} and {theirs[1]} in its "
                f"{CONFIGURATION}; take both from the same training"
            )
        size, shape = theirs[0], ours[0]
    raise ModelFormatRefused(
        f"the adapter {name!r} changes a matrix of {_by(shape)} in {called!r}, and that of {base_name!r} is "
        f"{_by(size)}; name the base that it was trained on"
    )


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
