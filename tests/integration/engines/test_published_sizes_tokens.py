"""Learned tokens at the sizes of SD 1.4 and SD 2, without weights: their images and widths."""

from __future__ import annotations

import pytest

from counterpose_core import torchvision_operators  # noqa: F401
from evaluation.reference.plain_driver import Driver

# isort: split
import torch
from diffusers import DDPMScheduler

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.tokens import TokenDescription
from counterpose_core.editing.generate import GuidedPrompts, generate_walk
from counterpose_core.editing.noise_schedule import NoiseSchedule, PredictionType
from counterpose_core.editing.textual_inversion import noised
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import load_suite
from counterpose_miniature.training.tokenizer import build_tokenizer
from counterpose_services.editor.prompts import PromptEncoder
from counterpose_services.editor.tokens.files import TokenBundle, pack_bundle, unpack_bundle
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser
from fakes.published_editors import SD_1_4, SD_2, PublishedEditor

BOTH = pytest.mark.parametrize("published", [SD_1_4, SD_2], ids=lambda published: published.suite)
WORDS = ("a", "photo", "of", "the", "in", "snow")


@BOTH
def test_token_images_have_the_published_shapes(published: PublishedEditor) -> None:
    editor = load_suite(published.suite).editor
    side = {"lance": 64, "dataset-interfaces": 96}[published.suite]
    assert editor.resolution == 8 * side
    with torch.device("meta"):
        prompts = PromptEncoder(build_tokenizer(WORDS, 77), published.text_encoder())
        denoiser, noise = UNetDenoiser(published.unet()), torch.empty(2, 4, side, side)
        tokens = [torch.empty(vectors, published.text_width) for vectors in (1, 2)]
    text = prompts.encode_learned(["a photo of a <class>", "the <class> in the snow"], tokens)
    assert text.shape == (2, 77, published.text_width)
    table = NoiseSchedule(prediction=published.prediction).timetable(2)
    driver = Driver(denoiser)
    guided = GuidedPrompts(
        text=text, null=prompts.encode([""])[0], guidance=editor.generation.guidance, owners="ab"
    )
    latents = driver.run(generate_walk(table, noise, guided))
    assert (latents.shape, latents.device.type) == (noise.shape, "meta")
    assert [driver.cost(owner).unet_evaluations for owner in "ab"] == [4, 4]


@pytest.mark.fault("B46")
@pytest.mark.parametrize(("of", "on"), [(SD_1_4, SD_2), (SD_2, SD_1_4)], ids=["768-on-1024", "1024-on-768"])
def test_a_bundle_of_another_width_is_refused(of: PublishedEditor, on: PublishedEditor) -> None:
    its, other = (
        ModelIdentity(id=load_suite(each.suite).editor.model, revision="1" * 64) for each in (of, on)
    )
    about = TokenDescription(
        class_name="plate", initialiser="plate", model=its, width=of.text_width, vectors=1, steps=3000,
        pin_norm=True, templates="object",
    )  # fmt: skip
    bundle = unpack_bundle(pack_bundle(TokenBundle(torch.zeros(1, of.text_width), about)))
    bundle.require_fit(its, of.text_width)
    with pytest.raises(InvalidRequest, match=rf"has width {of.text_width},.*has width {on.text_width}"):
        bundle.require_fit(other, on.text_width)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_training_targets_match_diffusers(prediction: PredictionType) -> None:
    theirs = DDPMScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", prediction_type=prediction
    )
    clean, noise = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(5)).split(1)
    levels = NoiseSchedule(prediction=prediction).alphas_cumprod().tolist()
    for timestep in (0, 1, 250, 500, 998, 999):
        latents, target = noised(clean, noise, levels[timestep], prediction)
        at = torch.tensor([timestep])
        assert torch.allclose(latents, theirs.add_noise(clean, noise, at), atol=1e-5)
        wanted = theirs.get_velocity(clean, noise, at) if prediction == "v_prediction" else noise
        assert torch.allclose(target, wanted, atol=1e-5)
