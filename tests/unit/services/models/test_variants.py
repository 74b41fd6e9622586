"""Copies of weights in other precisions: which one is read, what is missing, what to download."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from counterpose_core.errors import UnknownModel
from counterpose_core.suite import PublishedModel
from counterpose_services.models.model_folder import how_to_get, read_variant, weight_files
from counterpose_services.models.weights import weights_folder

NO_TENSORS = (2).to_bytes(8, "little") + b"{}"
HALF = {"net": PublishedModel(repository="maker/net", variant="fp16")}


def folder_of(tmp_path: Path, *files: str) -> Path:
    folder = tmp_path / "net"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    for file in files:
        (folder / file).write_bytes(NO_TENSORS)
    return folder


@pytest.mark.parametrize(
    ("files", "variant", "read"),
    [
        (["model.safetensors"], None, ["model.safetensors"]),
        (["model.safetensors", "model.fp16.safetensors"], None, ["model.safetensors"]),
        (["model.fp16.safetensors", "config.safetensors.old"], "fp16", ["model.fp16.safetensors"]),
        (["model.non_ema.safetensors", "model.fp16.safetensors"], "fp16", ["model.fp16.safetensors"]),
        (
            [f"model.fp16-0000{part}-of-00002.safetensors" for part in (1, 2)],
            "fp16",
            [f"model.fp16-0000{part}-of-00002.safetensors" for part in (1, 2)],
        ),
        (
            [f"model-0000{part}-of-00001.safetensors" for part in (1,)],
            None,
            ["model-00001-of-00001.safetensors"],
        ),
        ([], None, []),
    ],
    ids=["usual", "both", "half", "two variants", "half in parts", "parts", "none"],
)
def test_the_usual_weights_come_before_variants(
    tmp_path: Path, files: list[str], variant: str | None, read: list[str]
) -> None:
    folder = folder_of(tmp_path, *files)
    assert read_variant(folder) == variant
    assert [file.name for file in weight_files(folder)] == read


def test_a_suite_s_variant_is_what_is_downloaded() -> None:
    told = how_to_get("net", HALF["net"])
    assert "hf download maker/net --include '*.fp16.safetensors' --include '*.fp16-*.safetensors' " in told
    assert "'*.safetensors'" not in told


def test_a_missing_part_of_a_variant_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "model.fp16-00001-of-00002.safetensors")
    shards = {name: f"model.fp16-0000{part}-of-00002.safetensors" for part, name in ((1, "a"), (2, "b"))}
    index = folder / "model.safetensors.index.fp16.json"
    index.write_text(json.dumps({"weight_map": shards}), encoding="utf-8")
    with pytest.raises(UnknownModel, match=r"'net' has no model\.fp16-00002-of-00002\.safetensors; run: hf"):
        weights_folder(tmp_path, "net", HALF)
    (folder / shards["b"]).write_bytes(NO_TENSORS)
    assert weights_folder(tmp_path, "net", HALF) == folder
    for file in folder.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(UnknownModel, match=r"'net' has no \*\.fp16\.safetensors; run: hf"):
        weights_folder(tmp_path, "net", HALF)
