"""A few-step pipeline: LCM's scheduler and a UNet that takes guidance as an input."""

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import numpy as np
import pytest
import torch
from diffusers import LatentConsistencyModelPipeline, LCMScheduler, UNet2DConditionModel

from counterpose_core.blobs import BlobStore
from counterpose_core.contract import editor as contract
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_core.types import Inversion
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.unet.unet_denoiser import guidance_embedding
from fakes.tiny_pipeline import RESOLUTION, SUITE, tiny_unet, write_tiny_pipeline

pytestmark = pytest.mark.floats

CAPTION, EDITED, STEPS, WIDTH = "a photo of a red bus", "a photo of a blue bus", 4, 32
FEW = PromptToPromptPreset(
    inversion="virtual",
    solver="consistent",
    steps=STEPS,
    guidance=5.0,
    self_replace=(0.5,),
    cross_replace=0.5,
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EditorEngine:
    root = tmp_path_factory.mktemp("models")
    write_tiny_pipeline(root / "tiny")
    torch.manual_seed(1)
    # With names that begin with an underscore, omitted fields would get their defaults again.
    config = {name: value for name, value in tiny_unet().config.items() if not name.startswith("_")}
    unet = UNet2DConditionModel.from_config(config | {"time_cond_proj_dim": WIDTH})
    unet.save_pretrained(root / "tiny" / "unet")
    LCMScheduler().save_pretrained(root / "tiny" / "scheduler")
    return EditorEngine.load(SUITE, root, BlobStore(str(tmp_path_factory.mktemp("store"))))


@pytest.mark.parametrize(("guidance", "width"), [(1.0, 32), (5.0, 32), (7.5, 33), (3.0, 256)])
def test_guidance_embeddings_match_diffusers(guidance: float, width: int) -> None:
    theirs = LatentConsistencyModelPipeline.get_guidance_scale_embedding(
        None, torch.tensor([guidance - 1.0]), embedding_dim=width
    )
    assert torch.allclose(guidance_embedding(guidance, width), theirs, atol=1e-4)


def edited(engine: EditorEngine, caption: str, guidance: float) -> tuple[np.ndarray, int]:
    pixels = np.random.default_rng(3).integers(0, 256, (RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
    item = contract.EditItem(
        image=engine.store.put(encode_png(pixels)), caption=CAPTION, edited_caption=caption
    )
    preset = FEW.model_copy(update={"guidance": guidance})
    response = engine.edit(contract.EditRequest(items=[item], preset=preset))
    made = decode_image(engine.store.get(response.outcomes[0].unwrap().variants[0].image))
    return made.astype(np.int16), response.cost.unet_evaluations


def test_each_step_evaluates_source_and_target_once_at_any_guidance(engine: EditorEngine) -> None:
    strong, evaluations = edited(engine, EDITED, 5.0)
    assert evaluations == 2 * STEPS
    assert np.abs(strong - edited(engine, EDITED, 1.0)[0]).max() > 1


def test_an_unchanged_caption_returns_the_image(engine: EditorEngine) -> None:
    assert np.abs(edited(engine, CAPTION, 5.0)[0] - edited(engine, CAPTION, 2.0)[0]).max() <= 1


@pytest.mark.parametrize("inversion", ["null-text", "negative-prompt"])
def test_an_inversion_that_needs_the_unconditional_branch_is_refused(
    engine: EditorEngine, inversion: Inversion
) -> None:
    image = engine.store.put(encode_png(np.zeros((RESOLUTION, RESOLUTION, 3), dtype=np.uint8)))
    preset = PromptToPromptPreset(inversion=inversion, steps=STEPS, guidance=5.0)
    refused = pytest.raises(InvalidRequest, match=f"{inversion}.*time_cond_proj_dim")
    with refused:
        engine.edit(
            contract.EditRequest(
                items=[contract.EditItem(image=image, caption=CAPTION, edited_caption=EDITED)], preset=preset
            )
        )
    with refused:
        engine.reconstruct(
            contract.ReconstructRequest(
                items=[contract.ReconstructItem(image=image, caption=CAPTION)], preset=preset
            )
        )


def test_generation_takes_one_evaluation_per_step(engine: EditorEngine) -> None:
    items = [contract.GenerateItem(prompt=CAPTION, seed=seed) for seed in (1, 2)]
    response = engine.generate(contract.GenerateRequest(items=items, steps=STEPS, guidance=5.0))
    assert response.cost.unet_evaluations == 2 * STEPS
    assert [outcome.unwrap().cost.unet_evaluations for outcome in response.outcomes] == [STEPS] * 2
    alone = engine.generate(contract.GenerateRequest(items=items[1:], steps=STEPS, guidance=5.0))
    first, second = (
        decode_image(engine.store.get(made.outcomes[-1].unwrap().image)).astype(np.int16)
        for made in (response, alone)
    )
    assert np.abs(first - second).max() <= 1
