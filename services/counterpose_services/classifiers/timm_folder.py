"""A checkpoint in timm's folder format: configuration, safetensors, class map."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.errors import ClassMapMismatch, ModelFormatRefused
from counterpose_services.classifiers.class_map import HeadClasses, read_class_map, require_several
from counterpose_services.classifiers.timm_network import (
    FACTORY_ARGUMENTS,
    Network,
    create_network,
    read_tensors,
)
from counterpose_services.models.model_folder import folder_revision

CONFIGURATION = "config.json"
WEIGHTS = "model.safetensors"
CLASS_MAP = "class_map.json"


def load_folder(folder: Path, name: str) -> Network:
    """Load ``config.json``, ``model.safetensors`` and ``class_map.json``.

    Raises:
        ModelFormatRefused: no readable configuration, or no safetensors weights that fit it.
        ClassMapMismatch: no readable class map, or its length differs from the head's.
        UnknownModel: timm has no such architecture.
    """
    if not (folder / WEIGHTS).is_file():
        raise ModelFormatRefused(f"the folder {name!r} has no {WEIGHTS}; add it")
    config, head = read_configuration(folder), read_class_map(folder / CLASS_MAP)
    require_several(len(head), name)
    module = create_network(
        str(config.get("architecture")),
        pretrained=False,
        num_classes=len(head),
        pretrained_cfg_overlay=config.get("pretrained_cfg", {}),
        **_model_arguments(config, name),
    )
    tensors = read_tensors(folder / WEIGHTS, name)
    _require_rows(module, tensors, head, name)
    try:
        module.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        raise ModelFormatRefused(
            f"the weights of {name!r} do not fit its {CONFIGURATION}; check the architecture"
        ) from error
    return Network(module, head, ModelIdentity(id=name, revision=folder_revision(folder)))


def _require_rows(module: Any, tensors: Mapping[str, Tensor], head: HeadClasses, name: str) -> None:
    # A separate error, because the owner has to correct the list of classes.
    bias = tensors.get(f"{module.default_cfg.get('classifier')}.bias")
    if bias is not None and bias.ndim == 1 and len(bias) != len(head):
        raise ClassMapMismatch(
            f"{CLASS_MAP} of {name!r} names {len(head)} classes, but its head has {len(bias)} rows"
        )


def _model_arguments(config: dict[str, Any], name: str) -> dict[str, Any]:
    arguments = config.get("model_args", {})
    if not isinstance(arguments, dict):
        raise ModelFormatRefused(f"'model_args' of {name!r} is not a JSON object")
    # timm's factory would load a pickle from `checkpoint_path`, and its own weights if `pretrained`.
    if taken := sorted(FACTORY_ARGUMENTS & arguments.keys()):
        raise ModelFormatRefused(f"'model_args' of {name!r} may not set {', '.join(taken)}")
    return arguments


def read_configuration(folder: Path, file: str = CONFIGURATION) -> dict[str, Any]:
    """Read timm's ``config.json``, or the ``file`` of another library.

    Raises:
        ModelFormatRefused: the file is missing or is not a JSON object.
    """
    try:
        config = json.loads((folder / file).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFormatRefused(
            f"the folder {folder.name!r} has no readable {file}; add it as a JSON object"
        ) from error
    if not isinstance(config, dict):
        raise ModelFormatRefused(f"{file} of {folder.name!r} is not a JSON object")
    return config
