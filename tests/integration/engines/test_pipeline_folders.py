"""A pipeline's folder that lacks a part is refused in one sentence, before any weights are read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpose_core.errors import ModelFormatRefused
from counterpose_services.editor import pipeline
from counterpose_services.editor.pipeline import load_pipeline
from fakes.tiny_pipeline import SUITE, write_tiny_pipeline
from fakes.tiny_sdxl import write_tiny_sdxl


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pipelines")
    write_tiny_pipeline(root / "tiny")
    write_tiny_sdxl(root / "sdxl")
    return root


def without(*parts: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for part in parts:
            path = folder / part
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return remove


def written(name: str, text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    return write


def changed(name: str, **fields: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / name
        file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | fields), encoding="utf-8")

    return change


SCHEDULER = "scheduler/scheduler_config.json"
EARLY: list[tuple[str, Callable[[Path], None], str]] = [
    ("tiny", without("scheduler"), "has no scheduler/scheduler_config.json; add it"),
    ("tiny", without(SCHEDULER), "has no scheduler/scheduler_config.json; add it"),
    ("tiny", without("tokenizer"), "has no tokenizer/tokenizer.json; add it"),
    ("tiny", without("tokenizer/tokenizer.json"), "has no tokenizer/tokenizer.json; add it"),
    ("sdxl", without("tokenizer_2/tokenizer.json"), "has no tokenizer_2/tokenizer.json; add it"),
    ("sdxl", without("tokenizer_2"), "has no folder tokenizer_2; add it"),
    ("tiny", written(SCHEDULER, "{"), "scheduler/scheduler_config.json of a pipeline is not readable JSON"),
    ("tiny", written("unet/config.json", "{"), "unet/config.json of a pipeline is not readable JSON"),
    ("tiny", changed(SCHEDULER, _class_name="FlowMatchEulerDiscreteScheduler"), "another way than by betas"),
    ("tiny", changed(SCHEDULER, beta_schedule="no-such"), "no-such"),
    ("tiny", changed("unet/config.json", out_channels=8), "gives more than the latents"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "spoil", "told"), EARLY)
def test_a_missing_part_is_named_before_any_weights_are_read(
    name: str,
    spoil: Callable[[Path], None],
    told: str,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(whole / name, tmp_path / name)
    spoil(tmp_path / name)

    def read(*_: object, **__: object) -> None:
        pytest.fail("weights were read")

    monkeypatch.setattr(pipeline, "load_fitting", read)
    with pytest.raises(ModelFormatRefused) as refused:
        load_pipeline(SUITE.model_copy(update={"model": name}), tmp_path, device="cpu", dtype="float32")
    assert told in refused.value.detail


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (without("unet/config.json"), "unet' has no config.json; add it"),
        (without("vae/config.json"), "vae' has no config.json; add it"),
        (without("text_encoder/config.json"), "text_encoder' has no config.json; add it"),
        (changed("vae/config.json", block_out_channels=["wide", 8]), "cannot be read as AutoencoderKL"),
        (written("tokenizer/tokenizer.json", "{}"), "'tokenizer' has no tokenizer that transformers reads"),
    ],
)
def test_a_part_that_its_library_cannot_read_is_refused_by_its_folder(
    spoil: Callable[[Path], None], told: str, whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole / "tiny", tmp_path / "tiny")
    spoil(tmp_path / "tiny")
    with pytest.raises(ModelFormatRefused) as refused:
        load_pipeline(SUITE, tmp_path, device="cpu", dtype="float32")
    assert told in refused.value.detail
    assert "\n" not in refused.value.detail
