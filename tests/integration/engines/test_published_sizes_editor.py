from dataclasses import replace

import pytest

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from diffusers import AutoencoderKL

from counterpose_core.editing.driver.evaluation import Answer
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.textual_inversion import TextualInversionSettings, textual_inversion_walk
from counterpose_core.editing.training_task import Learning, SampleStream, TokenTask
from counterpose_core.suite import load_suite
from counterpose_core.text.class_prompts import CLASS_SLOT
from counterpose_miniature.training.tokenizer import build_tokenizer
from counterpose_services.editor.prompts import PromptEncoder
from counterpose_services.editor.unet.attention_processors import attention_sites
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser
from fakes.published_editors import SD_1_4, SD_2, PublishedEditor

BOTH = pytest.mark.parametrize("published", [SD_1_4, SD_2], ids=lambda published: published.suite)


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.paper("LANCE-T6-sd", "DI-C-model")
@BOTH
def test_every_attention_layer_of_the_published_unet_is_hooked(published: PublishedEditor) -> None:
    with torch.device("meta"):
        unet = published.unet()
    assert parameters(unet) == published.unet_parameters
    sites = attention_sites(unet)
    assert [sum(site.is_cross is cross for site in sites) for cross in (False, True)] == [16, 16]
    side = load_suite(published.suite).editor.resolution // 8
    with torch.device("meta"):
        latents, text = torch.empty(3, 4, side, side), torch.empty(3, 77, published.text_width)
        output = UNetDenoiser(unet)(latents, torch.empty(3, dtype=torch.int64), text)
    assert output.shape == latents.shape


@BOTH
def test_the_published_text_encoder_takes_77_tokens(published: PublishedEditor) -> None:
    with torch.device("meta"):
        encoder = published.text_encoder()
        embedded = encoder(torch.zeros(2, 77, dtype=torch.int64))[0]
    assert parameters(encoder) == published.text_parameters
    assert embedded.shape == (2, 77, published.text_width)


@BOTH
def test_a_textual_inversion_step_has_the_published_shapes(published: PublishedEditor) -> None:
    editor = load_suite(published.suite).editor
    templates, side = editor.textual_inversion.templates, editor.resolution // 8
    tokenizer = build_tokenizer([word for prompt in templates.prompts for word in words_of(prompt)], 77)
    with torch.device("meta"):
        prompts = PromptEncoder(tokenizer, published.text_encoder())
        denoiser, clean = UNetDenoiser(published.unet()), torch.empty(4, side, side)
        initial = torch.empty(2, prompts.width)
    assert (prompts.length, prompts.width) == (77, published.text_width)
    reader = prompts.slot_reader([(prompt, 2) for prompt in templates.prompts])
    stream = SampleStream(
        seed=1, key="a", images=2, templates=len(templates.prompts), timesteps=1000, batch=1, flip=0.5
    )
    tasks = [
        TokenTask(replace(stream, key=key), initial, Learning.start(initial), 2, lambda _: clean)
        for key in "ab"
    ]
    schedule = NoiseSchedule(prediction=published.prediction)
    walk = textual_inversion_walk(tasks, reader, schedule, TextualInversionSettings(), "ab")
    first = next(walk)
    latents, text = (torch.cat([getattr(each, part) for each in first]) for part in ("latents", "text"))
    assert (latents.shape, text.shape) == ((2, 4, side, side), (2, 77, published.text_width))
    leaf = text.requires_grad_()
    output = denoiser(latents, torch.empty(2, dtype=torch.int64, device="meta"), leaf)
    assert output.shape == latents.shape
    (gradient,) = torch.autograd.grad(output, leaf, latents)
    # The optimiser's step comes between the first and the second evaluation.
    answers = [Answer(latents[row : row + 1], (), gradient[row : row + 1], (0.5,)) for row in range(2)]
    assert [each.text.shape for each in walk.send(answers)] == [(1, 77, published.text_width)] * 2
    walk.close()


def words_of(prompt: str) -> list[str]:
    return prompt.replace(CLASS_SLOT, " ").split()


def test_the_published_autoencoder_downsamples_by_8() -> None:
    with torch.device("meta"):
        vae = AutoencoderKL(
            block_out_channels=(128, 256, 512, 512),
            layers_per_block=2,
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
        )
        latents = vae.encode(torch.empty(1, 3, 512, 512)).latent_dist.mean
    assert parameters(vae) == 83_653_863
    assert latents.shape == (1, 4, 64, 64)
    assert vae.config.scaling_factor == pytest.approx(0.18215)
