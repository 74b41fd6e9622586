"""A checkpoint in timm's folder format: configuration, safetensors, class map."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from faultline_core.contract.base import ModelIdentity
from faultline_core.errors import ModelFormatRefused
from faultline_services.classifiers.class_map import read_class_map
from faultline_services.classifiers.timm_network import FACTORY_ARGUMENTS, Network, create_network
from faultline_services.model_folder import folder_revision

CONFIGURATION = "config.json"
WEIGHTS = "model.safetensors"
CLASS_MAP = "class_map.json"


def load_folder(folder: Path, name: str) -> Network:
    """Load ``config.json``, ``model.safetensors`` and ``class_map.json``.

    Raises:
        ModelFormatRefused: no readable configuration, or weights that are not safetensors that fit it.
        ClassMapMismatch: no readable class map.
        UnknownModel: timm has no such architecture.
    """
    if not (folder / WEIGHTS).is_file():
        raise ModelFormatRefused(f"{name!r} has no {WEIGHTS}")
    config, head = read_configuration(folder), read_class_map(folder / CLASS_MAP)
    module = create_network(
        str(config.get("architecture")),
        pretrained=False,
        num_classes=len(head),
        pretrained_cfg_overlay=config.get("pretrained_cfg", {}),
        **_model_arguments(config, name),
    )
    try:
        module.load_state_dict(load_file(folder / WEIGHTS), strict=True)
    except (RuntimeError, SafetensorError, OSError) as error:
        raise ModelFormatRefused(f"the weights of {name!r} do not fit its configuration") from error
    return Network(module, head, ModelIdentity(id=name, revision=folder_revision(folder)))


def _model_arguments(config: dict[str, Any], name: str) -> dict[str, Any]:
    arguments = config.get("model_args", {})
    if not isinstance(arguments, dict):
        raise ModelFormatRefused(f"'model_args' of {name!r} is no JSON object")
    # timm's factory would load a pickle from `checkpoint_path`, and weights of its own if `pretrained`.
    if taken := sorted(FACTORY_ARGUMENTS & arguments.keys()):
        raise ModelFormatRefused(f"'model_args' of {name!r} may not set {', '.join(taken)}")
    return arguments


def read_configuration(folder: Path) -> dict[str, Any]:
    """Read timm's ``config.json``.

    Raises:
        ModelFormatRefused: there is none, or it is no JSON object.
    """
    try:
        config = json.loads((folder / CONFIGURATION).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFormatRefused(f"{folder.name!r} has no readable {CONFIGURATION}") from error
    if not isinstance(config, dict):
        raise ModelFormatRefused(f"{CONFIGURATION} of {folder.name!r} is no JSON object")
    return config
