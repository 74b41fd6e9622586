"""The parts of the editor: prompts, images, autoencoder batches and the noise schedule."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from fakes.tiny_pipeline import WORDS

# isort: split
from diffusers import DDIMScheduler, EulerDiscreteScheduler
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from counterpose_core.contract.editor import EditItem, EditRequest
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.editing.attention_control import cross_edit
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.prompt_alignment import align
from counterpose_core.errors import InvalidRequest, PromptTooLong
from counterpose_core.types import BlobRef
from counterpose_miniature.training.tokenizer import build_tokenizer
from counterpose_services.editor.caches import CaptionedImage
from counterpose_services.editor.call import EngineCall
from counterpose_services.editor.edits.settings import edit_settings, edit_tasks
from counterpose_services.editor.latent_codec import EXACT_PSNR_DB, LatentCodec, centre_crop, psnr_db
from counterpose_services.editor.prompts import PromptEncoder
from counterpose_services.editor.unet.unet_denoiser import schedule_from_config
from evaluation.reference.same_answers import FLOAT32

pytestmark = pytest.mark.floats


def text_encoder(positions: int, vocabulary: int) -> CLIPTextModel:
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=vocabulary, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=positions, bos_token_id=1, eos_token_id=3,
            pad_token_id=0,
        )
    )  # fmt: skip


def letters() -> CLIPTokenizer:
    """CLIP's own tokenizer with a vocabulary of letters: every word has as many tokens as letters."""
    alphabet = "abcdefghijklmnopqrstuvwxyz-"
    tokens = ["<|startoftext|>", "<|endoftext|>", *alphabet, *(letter + "</w>" for letter in alphabet)]
    return CLIPTokenizer(
        vocab={token: index for index, token in enumerate(tokens)}, merges=[], model_max_length=12
    )


@pytest.mark.paper("LANCE-D-punctuation")
def test_clip_s_tokenizer_maps_tokens_to_words() -> None:
    prompts = PromptEncoder(letters(), text_encoder(20, 60))
    prompt = prompts.tokenize("Red bus")
    assert prompt.words == (None, 0, 0, 0, 1, 1, 1, None)
    assert prompt.spans() == [(1, 2, 3), (4, 5, 6)]
    assert prompts.length == 12


@pytest.mark.paper("LANCE-D-caption-77")
@pytest.mark.fault("B27")
def test_an_error_names_the_prompt_that_is_too_long() -> None:
    prompts = PromptEncoder(letters(), text_encoder(20, 60))
    with pytest.raises(PromptTooLong, match="'abcdefghijk' has 13 tokens; the text encoder reads 12"):
        prompts.tokenize("abcdefghijk")


@pytest.mark.fault("B30")
@pytest.mark.parametrize("text", ["bus<|endoftext|>tram", "<|startoftext|>", "a <|endoftext|>"])
def test_special_tokens_are_refused_as_words(text: str) -> None:
    prompts = PromptEncoder(letters(), text_encoder(20, 60))
    with pytest.raises(InvalidRequest, match="special token"):
        prompts.tokenize(text)


def test_embeddings_do_not_depend_on_their_batch() -> None:
    tokenizer = build_tokenizer(WORDS)
    prompts = PromptEncoder(tokenizer, text_encoder(24, len(tokenizer)))
    together = prompts.encode(["a red bus", "", "a tram on the grass", "a red bus"])
    assert together.shape == (4, 24, 8)
    assert together[0].allclose(together[3], atol=FLOAT32)
    assert together[2].allclose(prompts.encode(["a tram on the grass"])[0], atol=FLOAT32)


@pytest.mark.paper("DI-C-images")
def test_the_centre_is_cropped_without_changing_its_pixels() -> None:
    wide = np.arange(4 * 8 * 3, dtype=np.uint8).reshape(4, 8, 3)
    assert np.array_equal(centre_crop(wide, 4), wide[:, 2:6])
    assert centre_crop(wide, 2).shape == (2, 2, 3)


def test_equal_images_have_the_highest_psnr() -> None:
    grey = np.full((4, 4, 3), 100, dtype=np.uint8)
    assert psnr_db(grey, grey) == EXACT_PSNR_DB
    assert psnr_db(grey, grey + 1) == pytest.approx(48.13, abs=0.01)


def test_an_image_of_any_shape_is_cropped_to_a_square() -> None:
    for shape in ((5, 9), (9, 5), (7, 7), (1, 8)):
        pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
        assert centre_crop(pixels, 6).shape == (6, 6, 3)


def test_psnr_follows_its_definition_and_is_symmetric() -> None:
    first, second = np.random.default_rng(1).integers(0, 256, (2, 6, 6, 3), dtype=np.uint8)
    error = float(np.mean((first.astype(float) - second.astype(float)) ** 2))
    assert psnr_db(first, second) == pytest.approx(20 * np.log10(255) - 10 * np.log10(error))
    assert psnr_db(first, second) == psnr_db(second, first)


class PlainVae:
    """An autoencoder whose latents are the images themselves; it records the sizes of its batches."""

    device, dtype = torch.device("cpu"), torch.float32
    config = SimpleNamespace(scaling_factor=0.5)

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def eval(self) -> PlainVae:
        return self

    def requires_grad_(self, *, requires_grad: bool) -> PlainVae:
        assert not requires_grad
        return self

    def encode(self, images: torch.Tensor) -> SimpleNamespace:
        self.sizes.append(len(images))
        assert -1 <= float(images.min()) <= float(images.max()) <= 1
        return SimpleNamespace(latent_dist=SimpleNamespace(mean=images))

    def decode(self, latents: torch.Tensor) -> SimpleNamespace:
        self.sizes.append(len(latents))
        return SimpleNamespace(sample=latents)


def test_the_codec_works_in_batches_and_restores_every_level() -> None:
    vae = PlainVae()
    codec = LatentCodec(vae, resolution=4, batch=2)
    images = list(np.random.default_rng(2).integers(0, 256, (5, 4, 4, 3), dtype=np.uint8))
    latents = codec.encode(images)
    assert latents.shape == (5, 3, 4, 4)
    assert float(latents.abs().max()) <= 0.5
    assert all(np.array_equal(a, b) for a, b in zip(codec.decode(latents), images, strict=True))
    assert vae.sizes == [2, 2, 1, 2, 2, 1]


def test_decoded_values_above_the_range_become_white() -> None:
    codec = LatentCodec(PlainVae(), resolution=2, batch=1)
    dark, bright = codec.decode(torch.tensor([-9.0, 9.0]).view(2, 1, 1, 1).expand(2, 3, 2, 2))
    assert (dark == 0).all()
    assert (bright == 255).all()


def test_missing_scheduler_fields_take_the_library_s_defaults() -> None:
    assert schedule_from_config({}) == schedule_from_config(dict(DDIMScheduler().config))


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_every_scheduler_configuration_gives_its_training_noise_levels(prediction: str) -> None:
    options = {
        "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
        "prediction_type": prediction, "num_train_timesteps": 500,
    }  # fmt: skip
    ddim = schedule_from_config(dict(DDIMScheduler(**options).config))
    euler = schedule_from_config(dict(EulerDiscreteScheduler(**options).config))
    assert (ddim.train_steps, ddim.prediction) == (euler.train_steps, euler.prediction) == (500, prediction)
    assert ddim.alphas_cumprod().allclose(euler.alphas_cumprod())


@pytest.mark.parametrize("released", [False, True])
def test_an_edit_takes_alignment_weights_and_ends_from_its_preset(released: bool) -> None:
    prompts = PromptEncoder(letters(), text_encoder(20, 60))
    settings = {"token_alignment": "released", "weighted_words": "released", "injection_end": "released"}
    preset = PromptToPromptPreset.model_validate(settings if released else {})
    item = EditItem(image=BlobRef("0" * 64), caption="a cat", edited_caption="a cat a dog")
    image = CaptionedImage(item.image, item.caption)
    pipeline = SimpleNamespace(
        prompts=prompts, denoiser=SimpleNamespace(inpainting=None), captioned=lambda _: image
    )
    [task] = edit_tasks(cast(EngineCall, SimpleNamespace(pipeline=pipeline)), [item], [image], preset)
    aligned = align(prompts.tokenize(item.caption), prompts.tokenize(item.edited_caption))
    expected = cross_edit(
        aligned,
        prompts.length,
        word_weight=2.0,
        tokens="released" if released else "words",
        weighted="released" if released else "added",
    )
    assert torch.equal(task.cross.mapper, expected.mapper.float())
    assert torch.equal(task.cross.gain, expected.gain.float())
    assert task.cross.gain[0, 1] == (2.0 if released else 1.0)
    request = EditRequest(items=[item], preset=preset)
    table = NoiseSchedule().timetable(preset.steps)
    assert edit_settings(request, table, 2.0).injection_end == preset.injection_end
