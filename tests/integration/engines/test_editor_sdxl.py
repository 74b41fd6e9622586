"""Stable Diffusion XL: it reads prompts as diffusers does, and inverts, edits, generates and learns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from diffusers import StableDiffusionXLPipeline
from safetensors.torch import load_file

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditItem,
    EditRequest,
    GenerateItem,
    GenerateRequest,
    ReconstructItem,
    ReconstructRequest,
)
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.tokens import LearnTokensRequest
from counterpose_core.errors import InvalidRequest, ModelFormatRefused
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.suite import load_suite
from counterpose_core.types import Inversion
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import load_pipeline
from counterpose_services.editor.tokens.files import unpack_bundle
from counterpose_services.models.inventory import models_of
from counterpose_services.settings import ServiceSettings
from fakes.tiny_pipeline import RESOLUTION
from fakes.tiny_sdxl import POOLED, SDXL, WIDTHS, write_tiny_sdxl

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue bus on snow"
WIDTH = sum(WIDTHS)


@pytest.fixture(scope="module")
def root(models: Path) -> Path:
    write_tiny_sdxl(models / "tiny-xl")
    return models


@pytest.fixture(scope="module")
def engine(root: Path, store: BlobStore) -> EditorEngine:
    return EditorEngine.load(SDXL, root, store)


@pytest.fixture(scope="module")
def published(root: Path) -> StableDiffusionXLPipeline:
    loaded = StableDiffusionXLPipeline.from_pretrained(root / "tiny-xl", add_watermarker=False)
    loaded.set_progress_bar_config(disable=True)
    return loaded


def image(store: BlobStore) -> str:
    pixels = np.random.default_rng(5).integers(0, 256, (RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
    return store.put(encode_png(pixels))


@torch.no_grad()
def test_prompts_are_read_as_diffusers_reads_them(
    engine: EditorEngine, published: StableDiffusionXLPipeline
) -> None:
    words, null, pooled, null_pooled = published.encode_prompt(CAPTION, device="cpu")
    ours = engine.pipeline.prompts.encode([CAPTION])
    assert ours.shape == (1, engine.max_tokens + 1, WIDTH)
    torch.testing.assert_close(ours[:, :-1], words)
    torch.testing.assert_close(ours[:, -1, -POOLED:], pooled)
    # The model was trained with zeros where there is no prompt.
    assert not null.any()
    assert not null_pooled.any()
    assert not engine.pipeline.null.any()


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 3])
def test_the_denoiser_predicts_what_diffusers_unet_predicts(
    rows: int, engine: EditorEngine, published: StableDiffusionXLPipeline
) -> None:
    latents = torch.randn(rows, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    words, _, pooled, _ = published.encode_prompt([CAPTION] * rows, device="cpu")
    sizes = torch.tensor([[RESOLUTION, RESOLUTION, 0, 0, RESOLUTION, RESOLUTION]] * rows)
    added = {"text_embeds": pooled, "time_ids": sizes}
    theirs = published.unet(latents, 500, words, added_cond_kwargs=added).sample
    text = engine.pipeline.prompts.encode([CAPTION] * rows)
    ours = engine.pipeline.denoiser(latents, torch.full((rows,), 500), text)
    torch.testing.assert_close(ours, theirs)
    text[:, -1] = 0.0
    assert not torch.allclose(engine.pipeline.denoiser(latents, torch.full((rows,), 500), text), theirs)


def test_images_match_the_diffusers_pipeline(
    engine: EditorEngine, published: StableDiffusionXLPipeline
) -> None:
    asked = GenerateRequest(
        items=[GenerateItem(prompt=CAPTION, seed=7)],
        steps=4,
        guidance=3.0,
        scheduler="EulerDiscreteScheduler",
    )
    [outcome] = engine.generate(asked).outcomes
    ours = decode_image(engine.store.get(outcome.unwrap().image)).astype(np.int16)
    theirs = published(
        prompt=CAPTION, num_inference_steps=4, guidance_scale=3.0, output_type="np", height=RESOLUTION,
        width=RESOLUTION, generator=torch.Generator().manual_seed(7),
    ).images[0]  # fmt: skip
    assert np.abs(ours - np.round(theirs * 255)).max() <= 1


@pytest.mark.parametrize("inversion", get_args(Inversion))
def test_every_inversion_reconstructs_and_edits(
    inversion: Inversion, engine: EditorEngine, store: BlobStore
) -> None:
    solver = "consistent" if inversion == "virtual" else "ddim"
    preset = PromptToPromptPreset(inversion=inversion, solver=solver, steps=4, guidance=2.0, inner_steps=2)
    shown = image(store)
    asked = ReconstructRequest(items=[ReconstructItem(image=shown, caption=CAPTION)], preset=preset)
    [outcome] = engine.reconstruct(asked).outcomes
    whole = outcome.unwrap().psnr_db
    item = EditItem(image=shown, caption=CAPTION, edited_caption=EDITED)
    response = engine.edit(EditRequest(items=[item], preset=preset))
    variants = response.outcomes[0].unwrap().variants
    made = [decode_image(store.get(variant.image)).astype(float) for variant in variants]
    assert np.isfinite(whole)
    assert all(np.abs(each - decode_image(store.get(shown))).max() > 0 for each in made)
    # A map is edited where a word changed: three sweep values give three images.
    assert len({variant.image for variant in variants}) == len(preset.self_replace)
    assert response.cost.flops > 0


def test_a_learned_token_has_vectors_of_both_encoders(engine: EditorEngine, store: BlobStore) -> None:
    templates = {"name": "one", "prompts": ["a photo of a <class>"]}
    body: dict[str, Any] = {
        "items": [{"class_name": "bus", "images": [image(store)]}],
        "preset": {"steps": 3, "learning_rate": 5e-3, "batch": 1, "templates": templates},
        "link_steps": 3,
        "seed": 1,
    }
    response = engine.learn_tokens(LearnTokensRequest.model_validate(body))
    token = response.outcomes[0].unwrap().bundle
    assert token is not None
    assert unpack_bundle(store.get(token)).vectors.shape == (1, WIDTH)
    prompt, prompts = "a photo of a <class>", engine.pipeline.prompts
    [kept] = prompts.encode_learned([prompt], [prompts.mean_embedding("bus")[None]])
    torch.testing.assert_close(kept, prompts.encode(["a photo of a bus"])[0])
    asked = GenerateRequest(items=[GenerateItem(prompt=prompt, seed=1, token=token)], steps=2, guidance=2.0)
    engine.generate(asked).outcomes[0].unwrap()
    with pytest.raises(InvalidRequest, match="reads no token"):
        engine.pipeline.prompts.mean_embedding(" ")


def changed(tmp_path: Path, root: Path, file: str, **fields: object) -> Path:
    """A copy of the pipeline with other fields in one of its configurations."""
    shutil.copytree(root / "tiny-xl", tmp_path / "tiny-xl")
    path = tmp_path / "tiny-xl" / file
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return tmp_path


REFUSED: dict[str, tuple[str, dict[str, object], str]] = {
    "refiner": ("model_index.json", {"requires_aesthetics_score": True}, "is the refiner"),
    "instructions": ("unet/config.json", {"in_channels": 8}, "takes more than the latents"),
    "image prompt": ("unet/config.json", {"addition_embed_type": "text_image"}, "other conditions"),
    "upscaler": ("unet/config.json", {"num_class_embeds": 1000}, "takes classes"),
    "projection": ("unet/config.json", {"encoder_hid_dim_type": "text_proj"}, "projects what the text"),
    "shifted latents": ("vae/config.json", {"latents_mean": [0.0] * 4}, "latents are shifted"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_editor_does_not_know_is_refused_before_anything_loads(
    kind: str, root: Path, tmp_path: Path
) -> None:
    file, fields, told = REFUSED[kind]
    folder = changed(tmp_path, root, file, **fields)
    # The tensors are gone, so only the configuration can have been read.
    for weights in folder.rglob("*.safetensors"):
        weights.unlink()
    with pytest.raises(ModelFormatRefused, match=f"^the pipeline 'tiny-xl' .*{told}.*Stable Diffusion 1, 2"):
        load_pipeline(SDXL, folder, device="cpu", dtype="float32")


def test_tokenizers_that_split_words_differently_are_refused(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "tiny-xl", tmp_path / "tiny-xl")
    file = tmp_path / "tiny-xl" / "tokenizer_2" / "tokenizer.json"
    file.write_text(file.read_text().replace('"bus"', '"car"'))
    with pytest.raises(ModelFormatRefused, match="different vocabularies"):
        load_pipeline(SDXL, tmp_path, device="cpu", dtype="float32")


def test_the_check_counts_both_text_encoders_in_float32(root: Path) -> None:
    suite = ServiceSettings.model_validate({"suite_root": root, "state_dir": root, "dtype": "float16"})
    named = load_suite("miniature").model_copy(update={"editor_part": SDXL})
    [found] = models_of("editor", named, suite)
    sizes = {
        part: sum(
            tensor.numel()
            for file in (root / "tiny-xl" / part).glob("*.safetensors")
            for tensor in load_file(file).values()
        )
        for part in ("unet", "vae", "text_encoder", "text_encoder_2")
    }
    assert found.weights_bytes == 4 * sum(sizes.values()) - 2 * sizes["unet"]
