"""Inpainting checkpoints of SD and SDXL, as diffusers saves them: told the region, they do what it does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import (
    DDIMScheduler,
    StableDiffusionInpaintPipeline,
    StableDiffusionXLInpaintPipeline,
    UNet2DConditionModel,
)
from PIL import Image

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
from counterpose_core.contract.regions import EditRegion
from counterpose_core.editing.edit import EditSettings, EditTask, run_edit
from counterpose_core.editing.inversion.tuning_free import virtual_inversion
from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.suite import EditorSuite
from counterpose_services.editor.edits.conditions import conditioned, null_texts
from counterpose_services.editor.edits.settings import edit_tasks, image_noise, preset_timetable
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import load_pipeline
from evaluation.reference.same_answers import FLOAT32
from fakes.tiny_pipeline import RESOLUTION, SUITE, write_tiny_pipeline
from fakes.tiny_sdxl import SDXL, write_tiny_sdxl

pytestmark = pytest.mark.floats

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue tram on grass"
PRESET = PromptToPromptPreset(
    inversion="virtual", solver="consistent", steps=4, guidance=3.0, cross_replace=0.0, self_replace=(0.0,)
)
KINDS: dict[str, tuple[Any, Any, EditorSuite]] = {
    "sd": (write_tiny_pipeline, StableDiffusionInpaintPipeline, SUITE),
    "sdxl": (write_tiny_sdxl, StableDiffusionXLInpaintPipeline, SDXL),
}


def inpainting(folder: Path) -> None:
    """Give the pipeline in a folder a UNet of nine channels with random weights."""
    config = json.loads((folder / "unet/config.json").read_text())
    torch.manual_seed(5)
    unet = UNet2DConditionModel.from_config(config | {"in_channels": 9})
    for file in (folder / "unet").iterdir():
        file.unlink()
    unet.save_pretrained(folder / "unet")


@pytest.fixture(scope="module", params=sorted(KINDS))
def kind(request: pytest.FixtureRequest, models: Path) -> str:
    write, saves, suite = KINDS[request.param]
    write(models / "plain" / suite.model)
    inpainting(models / "plain" / suite.model)
    # Written by the library's own pipeline of inpainting, whose index names it.
    options: dict[str, Any] = (
        {"safety_checker": None, "feature_extractor": None} if request.param == "sd" else {}
    )
    pipeline = saves.from_pretrained(models / "plain" / suite.model, **options)
    pipeline.save_pretrained(models / suite.model)
    assert (
        json.loads((models / suite.model / "model_index.json").read_text())["_class_name"] == saves.__name__
    )
    return str(request.param)


@pytest.fixture(scope="module")
def engine(kind: str, models: Path, store: BlobStore) -> EditorEngine:
    return EditorEngine.load(KINDS[kind][2], models, store)


def put(store: BlobStore, pixels: np.ndarray[Any, Any]) -> str:
    return store.put(encode_png(pixels.astype(np.uint8)))


def item(store: BlobStore, columns: slice = slice(0, RESOLUTION // 2), **changes: Any) -> EditItem:
    mask = np.zeros((RESOLUTION, RESOLUTION, 3))
    mask[:, columns] = 255
    image = np.random.default_rng(3).integers(0, 256, (RESOLUTION, RESOLUTION, 3))
    known = {"image": put(store, image), "caption": CAPTION, "edited_caption": EDITED}
    return EditItem.model_validate({**known, "region": EditRegion(mask=put(store, mask)), **changes})


def ours_and_theirs(
    engine: EditorEngine, store: BlobStore, pipe: Any, **told: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Edit a region from noise that is drawn, here and by diffusers; also return the clean latents."""
    asked, pipeline = item(store), engine.pipeline
    assert asked.region is not None
    call, image = engine._begin(lambda: False), pipeline.captioned(asked)
    table = preset_timetable(pipeline.schedule, PRESET)
    clean = pipeline.codec.encode([decode_image(store.get(asked.image))])
    noise = image_noise(PRESET, [asked.image], pipeline.latent_shape).to(clean)
    inverted = virtual_inversion(table, clean, null_texts(call, [image]), noise)
    # As a whole inpainting begins: from noise alone.
    inverted.trajectory[:, 0] = noise
    [task] = edit_tasks(call, [asked], [image], PRESET)
    settings = EditSettings(guidance=3.0, cross_replace=0.0, self_replace=(0.0,))
    text = conditioned(call, [image], pipeline.prompts.encode([CAPTION]))
    ours = run_edit(call.runner(), table, inverted, text, [task], settings).latents[0]
    mask = decode_image(store.get(asked.region.mask))[..., 0]

    def put_back(_: Any, index: int, __: Any, known: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        # diffusers does so only with a UNet of four channels.
        return {"latents": torch.where(mask_of(task), known["latents"], inverted.trajectory[:, index + 1])}

    pipe.scheduler = DDIMScheduler.from_config(pipe.scheduler.config, clip_sample=False)
    pipe.set_progress_bar_config(disable=True)
    shown = torch.from_numpy(decode_image(store.get(asked.image)).astype(np.float32))
    if pipe.unet.config.in_channels == 9:
        told |= {"callback_on_step_end": put_back, "callback_on_step_end_tensor_inputs": ["latents"]}
    made = pipe(
        prompt=EDITED,
        image=clean,
        mask_image=Image.fromarray(mask),
        masked_image_latents=_masked(pipe, shown.permute(2, 0, 1)[None] / 127.5 - 1.0, mask),
        height=RESOLUTION,
        width=RESOLUTION,
        latents=noise,
        num_inference_steps=4,
        guidance_scale=3.0,
        strength=1.0,
        output_type="latent",
        **told,
    ).images
    return ours, made, clean


def mask_of(task: EditTask) -> torch.Tensor:
    assert task.region is not None
    return task.region


def opened(kind: str, folder: Path) -> Any:
    options: dict[str, Any] = {"safety_checker": None} if kind == "sd" else {}
    return KINDS[kind][1].from_pretrained(folder, **options)


def test_an_inpainted_image_is_that_of_diffusers_from_the_same_noise(
    kind: str, engine: EditorEngine, store: BlobStore, models: Path
) -> None:
    ours, theirs, clean = ours_and_theirs(engine, store, opened(kind, models / KINDS[kind][2].model))
    assert torch.allclose(ours, theirs, atol=10 * FLOAT32)
    assert not torch.allclose(ours[..., :4], clean[..., :4], atol=1e-2)
    assert torch.equal(ours[..., 4:], clean[..., 4:])


def test_so_is_one_of_a_checkpoint_that_was_not_trained_for_it(
    kind: str, store: BlobStore, tmp_path: Path
) -> None:
    write, _, suite = KINDS[kind]
    write(tmp_path / suite.model)
    engine = EditorEngine.load(suite, tmp_path, store)
    ours, theirs, clean = ours_and_theirs(engine, store, opened(kind, tmp_path / suite.model))
    assert torch.allclose(ours, theirs, atol=10 * FLOAT32)
    assert not torch.allclose(ours[..., :4], clean[..., :4], atol=1e-2)


def _masked(theirs: Any, pixels: torch.Tensor, mask: np.ndarray[Any, Any]) -> torch.Tensor:
    blank = pixels * torch.from_numpy(mask < 128)
    with torch.no_grad():
        mean: torch.Tensor = theirs.vae.encode(blank).latent_dist.mean
    return mean * float(theirs.vae.config.scaling_factor)


@pytest.mark.parametrize("inversion", ["direct", "negative-prompt", "virtual"])
def test_edits_in_a_region_leave_the_rest_and_depend_on_what_the_network_is_told(
    inversion: str, engine: EditorEngine, store: BlobStore
) -> None:
    preset = PromptToPromptPreset.model_validate(
        {"inversion": inversion, "steps": 4, "solver": "consistent" if inversion == "virtual" else "ddim"}
    )
    items = [item(store), item(store, slice(4, 12)), item(store, region=None)]
    variants = [
        each.unwrap().variants[0] for each in engine.edit(EditRequest(items=items, preset=preset)).outcomes
    ]
    made = [decode_image(store.get(each.image)) for each in variants]
    for number, kept in ((0, slice(RESOLUTION // 2, None)), (1, slice(0, 4))):
        unchanged = decode_image(store.get(str(variants[number].unchanged)))
        assert np.array_equal(made[number][:, kept], unchanged[:, kept])
    # In the columns that both may change, each was told another region.
    assert not np.array_equal(made[0][:, 4:8], made[1][:, 4:8])
    assert not np.array_equal(made[0][:, :8], made[2][:, :8])
    alone = engine.edit(EditRequest(items=items[:1], preset=preset)).outcomes[0].unwrap().variants[0]
    assert np.abs(decode_image(store.get(alone.image)).astype(int) - made[0]).max() <= 1


def test_the_checkpoint_also_reconstructs_and_draws(engine: EditorEngine, store: BlobStore) -> None:
    asked = ReconstructItem(image=item(store).image, caption=CAPTION)
    preset = PromptToPromptPreset(steps=4)
    assert engine.reconstruct(ReconstructRequest(items=[asked], preset=preset)).outcomes[0].value
    drawn = engine.generate(GenerateRequest(items=[GenerateItem(prompt=CAPTION, seed=1)], steps=4))
    assert drawn.outcomes[0].value


def test_null_text_is_refused_for_its_conditions_are_a_part_of_the_text(
    engine: EditorEngine, store: BlobStore
) -> None:
    preset = PromptToPromptPreset(inversion="null-text", steps=4, inner_steps=1)
    with pytest.raises(InvalidRequest, match="the loaded UNet inpaints"):
        engine.edit(EditRequest(items=[item(store)], preset=preset))


def test_half_precision_shards_of_it_are_read(kind: str, engine: EditorEngine, models: Path) -> None:
    _, saves, suite = KINDS[kind]
    pipeline = saves.from_pretrained(
        models / suite.model, **({"safety_checker": None} if kind == "sd" else {})
    )
    folder = models / "half" / suite.model
    pipeline.to(dtype=torch.float16).save_pretrained(folder, variant="fp16", max_shard_size="40KB")
    assert list((folder / "unet").glob("*-00001-of-*"))
    loaded = load_pipeline(suite, models / "half", device="cpu", dtype="float32")
    assert loaded.denoiser.inpainting is not None
    assert loaded.latent_shape == engine.pipeline.latent_shape
