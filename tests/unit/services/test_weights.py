"""Missing and pickled weights are found before Ray starts, in folders that hold nothing but names."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline_core.errors import FaultlineError, ModelFormatRefused, UnknownModel
from faultline_services import launcher
from faultline_services.serve_config import SERVICES
from faultline_services.settings import ServiceName, ServiceSettings
from faultline_services.weights import clip_folder, pipeline_folder, require_weights, weights_folder

FILES = (
    "captioner/model.safetensors",
    "perturber/model.safetensors",
    "perturber/adapter/adapter_model.safetensors",
    "editor/vae/diffusion_pytorch_model.safetensors",
    "editor/unet/diffusion_pytorch_model.safetensors",
    "editor/text_encoder/model.safetensors",
    "preview/diffusion_pytorch_model.safetensors",
    "scorer/clip/open_clip_config.json",
    "scorer/clip/open_clip_model.safetensors",
    "scorer/sentence/model.safetensors",
    "scorer/masked-lm/model.safetensors",
)
"""What the miniature suite's services cannot start without."""

OF_SERVICES = {"preview": "editor"}
"""Folders that do not bear the name of the service that loads them."""

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


def test_the_embedded_suite_lacks_nothing() -> None:
    require_weights(ServiceSettings.model_validate({}), SERVICES)


@pytest.mark.parametrize("missing", FILES)
def test_each_missing_file_is_found_and_named_with_its_service_and_root(missing: str, root: Path) -> None:
    (root / missing).unlink()
    folder = missing.split("/")[0]
    service = OF_SERVICES.get(folder, folder)
    with pytest.raises(FaultlineError, match=f"the {service} wants '{folder}") as caught:
        require_weights(settings(root), SERVICES)
    assert repr(str(root)) in caught.value.detail


@pytest.mark.parametrize("missing", FILES)
def test_what_is_not_started_may_be_missing(missing: str, root: Path) -> None:
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


def test_pickled_weights_are_refused_before_anything_starts(root: Path) -> None:
    weights = root / "captioner" / "model.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(ModelFormatRefused, match="no safetensors"):
        require_weights(settings(root), ["captioner"])


@pytest.mark.parametrize("damaged", [file for file in FILES if file.endswith("safetensors")])
def test_a_damaged_header_is_found_before_anything_starts(damaged: str, root: Path) -> None:
    (root / damaged).write_bytes((2**63).to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelFormatRefused, match="no safetensors file"):
        require_weights(settings(root), SERVICES)


def test_classifiers_start_with_whatever_is_there(tmp_path: Path) -> None:
    require_weights(settings(tmp_path), ["classifiers"])


def test_a_service_that_the_suite_has_no_model_for_cannot_be_asked_for(root: Path) -> None:
    with pytest.raises(UnknownModel, match="'dataset-interfaces' has no perturber"):
        require_weights(settings(root, "dataset-interfaces"), ["perturber"])


def test_a_suite_without_an_adapter_wants_none(root: Path) -> None:
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


def test_a_published_clip_lies_in_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "open_clip" / "ViT-L-14"
    folder.mkdir(parents=True)
    for name in ("open_clip_config.json", "open_clip_pytorch_model.safetensors"):
        (folder / name).write_bytes(NO_TENSORS)
    assert clip_folder(tmp_path, "open_clip:ViT-L-14") == folder


@pytest.mark.parametrize("find", [weights_folder, pipeline_folder, clip_folder])
@pytest.mark.parametrize("name", ["../captioner", "/etc", "a//b", "captioner/", "", ".", "c\x00"])
def test_a_path_is_no_name(find: type, name: str, root: Path) -> None:
    with pytest.raises(UnknownModel, match="is no model name"):
        find(root / "scorer", name)


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_the_launcher_refuses_at_once_and_starts_nothing(
    detach: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr(launcher, "running", started)
    monkeypatch.setattr(launcher, "_detach", started)
    monkeypatch.setenv("FAULTLINE_SUITE_ROOT", str(tmp_path))
    assert launcher.main(["up", *detach, "--only", "editor", "--state-dir", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert "the editor wants 'editor'" in said
    assert str(tmp_path) in said
