"""A CLIP whose weights are of another architecture than its configuration is refused with one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from counterpose_core.errors import ModelFormatRefused
from counterpose_services.models.clip_encoder import ClipEncoder
from fakes.tiny_models.clip import save_clip

WEIGHTS = "open_clip_model.safetensors"


def configured(folder: Path, *path: str, value: int) -> None:
    """Set a value of the model's configuration."""
    file = folder / "open_clip_config.json"
    config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    part = config["model_cfg"]
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    file.write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.fault("B45")
@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("embed_dim",), 32, "size mismatch for"),
        (("text_cfg", "layers"), 2, "Missing key"),
        (("vision_cfg", "layers"), 0, "Unexpected key"),
    ],
)
def test_another_configuration_is_refused(
    tmp_path: Path, path: tuple[str, ...], value: int, why: str
) -> None:
    save_clip(tmp_path / "clip")
    configured(tmp_path / "clip", *path, value=value)
    with pytest.raises(ModelFormatRefused) as refused:
        ClipEncoder(tmp_path / "clip")
    detail = refused.value.detail
    assert f"the weights in {str(tmp_path / 'clip')!r} do not fit its open_clip_config.json: {why}" in detail
    assert "\n" not in detail


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    save_clip(tmp_path / "clip")
    tensors = load_file(tmp_path / "clip" / WEIGHTS)
    del tensors["visual.proj"]
    save_file(tensors, tmp_path / "clip" / WEIGHTS)
    with pytest.raises(ModelFormatRefused, match=r"visual\.proj"):
        ClipEncoder(tmp_path / "clip")
