"""Missing and pickled weights are detected before Ray starts, in folders of empty files."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.errors import CounterposeError, ModelFormatRefused, UnknownModel
from counterpose_services.models.weights import clip_folder, pipeline_folder, require_weights, weights_folder
from counterpose_services.serving import launcher
from counterpose_services.settings import SERVICES, ServiceName, ServiceSettings

FILES = (
    "captioner/model.safetensors",
    "perturber/model.safetensors",
    "perturber/adapter/adapter_model.safetensors",
    "editor/vae/diffusion_pytorch_model.safetensors",
    "editor/unet/diffusion_pytorch_model.safetensors",
    "editor/text_encoder/model.safetensors",
    "editor/scheduler/scheduler_config.json",
    "editor/tokenizer/tokenizer.json",
    "preview/diffusion_pytorch_model.safetensors",
    "scorer/clip/open_clip_config.json",
    "scorer/clip/open_clip_model.safetensors",
    "scorer/sentence/model.safetensors",
    "scorer/masked-lm/model.safetensors",
    "scorer/encoder/model.safetensors",
)
"""The folders that the miniature suite's services need to start."""

OF_SERVICES = {"preview": "editor"}
"""Folders whose names differ from the service that loads them."""

NO_TENSORS = (2).to_bytes(8, "little") + b"{}"
"""The smallest safetensors file."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(NO_TENSORS)
    return tmp_path


def settings(root: Path, suite: str = "miniature") -> ServiceSettings:
    return ServiceSettings.model_validate({"suite": suite, "suite_root": root, "state_dir": root / "state"})


def test_the_embedded_suite_has_all_weights() -> None:
    require_weights(ServiceSettings.model_validate({}), SERVICES)


@pytest.mark.parametrize("missing", FILES)
def test_each_missing_file_is_named_with_its_service_and_root(missing: str, root: Path) -> None:
    (root / missing).unlink()
    folder = missing.split("/")[0]
    service = OF_SERVICES.get(folder, folder)
    with pytest.raises(CounterposeError, match=f"the {service} needs '{folder}") as caught:
        require_weights(settings(root), SERVICES)
    assert repr(str(root)) in caught.value.detail


@pytest.mark.parametrize("missing", FILES)
def test_weights_of_services_not_started_may_be_missing(missing: str, root: Path) -> None:
    (root / missing).unlink()
    folder = missing.split("/")[0]
    require_weights(settings(root), [name for name in SERVICES if name != OF_SERVICES.get(folder, folder)])


@pytest.mark.parametrize(
    ("service", "folder"), [("captioner", "captioner"), ("scorer", "scorer/clip"), ("editor", "editor")]
)
def test_a_missing_folder_is_an_unknown_model(service: ServiceName, folder: str, root: Path) -> None:
    (root / folder).rename(root / "elsewhere")
    with pytest.raises(UnknownModel, match=folder):
        require_weights(settings(root), [service])


@pytest.mark.fault("T15")
def test_pickled_weights_are_refused_before_anything_starts(root: Path) -> None:
    weights = root / "captioner" / "model.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(ModelFormatRefused, match="no safetensors"):
        require_weights(settings(root), ["captioner"])


@pytest.mark.fault("B45")
@pytest.mark.parametrize("damaged", [file for file in FILES if file.endswith("safetensors")])
def test_a_damaged_header_is_found_before_anything_starts(damaged: str, root: Path) -> None:
    (root / damaged).write_bytes((2**63).to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelFormatRefused, match="not a safetensors file"):
        require_weights(settings(root), SERVICES)


def test_classifiers_start_with_the_weights_present(tmp_path: Path) -> None:
    require_weights(settings(tmp_path), ["classifiers"])


def test_a_service_without_a_model_in_the_suite_is_refused(root: Path) -> None:
    with pytest.raises(UnknownModel, match="'dataset-interfaces' has no perturber"):
        require_weights(settings(root, "dataset-interfaces"), ["perturber"])


def test_a_suite_without_an_adapter_needs_none(root: Path) -> None:
    text = """
name = "bare"
description = "no adapter"
[captioner]
model = "captioner"
[perturber]
model = "perturber"
[editor]
model = "editor"
resolution = 64
default_preset = "quick"
[editor.presets.quick]
[scorer]
clip = "scorer/clip"
sentence = "scorer/sentence"
masked_lm = "scorer/masked-lm"
[classifiers]
"""
    (root / "bare.toml").write_text(text, encoding="utf-8")
    (root / "perturber" / "adapter" / "adapter_model.safetensors").unlink()
    require_weights(settings(root, str(root / "bare.toml")), SERVICES)


def test_a_published_clip_has_its_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "open_clip" / "ViT-L-14"
    folder.mkdir(parents=True)
    for name in ("open_clip_config.json", "open_clip_pytorch_model.safetensors"):
        (folder / name).write_bytes(NO_TENSORS)
    assert clip_folder(tmp_path, "open_clip:ViT-L-14") == folder


@pytest.mark.parametrize("find", [weights_folder, pipeline_folder, clip_folder])
@pytest.mark.parametrize("name", ["../captioner", "/etc", "a//b", "captioner/", "", ".", "c\x00"])
def test_a_path_is_not_a_model_name(find: type, name: str, root: Path) -> None:
    with pytest.raises(UnknownModel, match="is not a model name"):
        find(root / "scorer", name)


def test_the_launcher_fails_before_starting_anything(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr(launcher, "running", started)
    monkeypatch.setenv("COUNTERPOSE_SUITE_ROOT", str(tmp_path))
    assert launcher.main(["up", "--only", "editor", "--state-dir", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert "the editor needs 'editor'" in said
    assert str(tmp_path) in said
