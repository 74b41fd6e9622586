from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from evaluation.reference.plain_driver import direct_inversion, edit, null_text_edit
from evaluation.reference.plain_editing import Target, call, denoise, invert, prompt_to_prompt, timesteps
from evaluation.reference.plain_unet import PlainUNet
from evaluation.reference.reference_run import Parity, reference_run
from evaluation.reference.toy_denoisers import draw
from fakes.tiny_pipeline import tiny_unet

# isort: split
from diffusers import UNet2DConditionModel
from torch import Tensor

from counterpose_core.editing.attention_control import cross_edit, refine, replace_words, reweight
from counterpose_core.editing.denoiser import AttentionSite
from counterpose_core.editing.edit import EditSettings, EditTask
from counterpose_core.editing.inversion.null_text import NullTextSettings
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.prompt_alignment import TokenizedPrompt, align
from counterpose_core.errors import AttentionNotHooked, InternalError
from counterpose_services.editor.step_engine.mode import Mode
from counterpose_services.editor.unet.attention_processors import attach, attention_sites
from counterpose_services.editor.unet.unet_denoiser import UNetDenoiser, schedule_from_config

pytestmark = pytest.mark.floats

STEPS, LENGTH, WIDTH = 3, 6, 16
TABLE = NoiseSchedule().timetable(STEPS)
CLEAN, TEXT = draw(2, 4, 4, 4, seed=5), draw(2, LENGTH, WIDTH, seed=6)
NULL, EDITED = draw(LENGTH, WIDTH, seed=9), draw(1, LENGTH, WIDTH, seed=7)
TIMES = torch.tensor([500, 500])


@pytest.fixture(scope="module")
def denoiser() -> UNetDenoiser:
    return UNetDenoiser(tiny_unet().double())


def words(*ids: int) -> TokenizedPrompt:
    return TokenizedPrompt((0, *ids, 1), (None, *range(len(ids)), None))


class Recorder:
    """Plain attention that records where it was called."""

    map_bytes = 0

    def __init__(self) -> None:
        self.sites: list[AttentionSite] = []

    def attend(self, site: AttentionSite, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        self.sites.append(site)
        return torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, dim=-1) @ value


def test_hooking_attention_does_not_change_predictions() -> None:
    unet = tiny_unet().double()
    with torch.no_grad():
        before = unet(CLEAN, TIMES, TEXT).sample
        after = UNetDenoiser(unet)(CLEAN, TIMES, TEXT)
    assert torch.allclose(after, before, atol=1e-12)


def test_a_control_sees_every_layer_once(denoiser: UNetDenoiser) -> None:
    recorder = Recorder()
    with torch.no_grad():
        controlled = denoiser(CLEAN, TIMES, TEXT, recorder)
        plain = denoiser(CLEAN, TIMES, TEXT)
    assert torch.allclose(controlled, plain, atol=1e-12)
    assert len({site.name for site in recorder.sites}) == len(recorder.sites) == 8
    assert sum(site.is_cross for site in recorder.sites) == 4


def test_a_control_is_removed_when_the_call_fails(denoiser: UNetDenoiser) -> None:
    class Broken:
        map_bytes = 0

        def attend(self, site: AttentionSite, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            raise ArithmeticError(site.name)

    with pytest.raises(ArithmeticError):
        denoiser(CLEAN, TIMES, TEXT, Broken())
    with torch.no_grad():
        assert torch.isfinite(denoiser(CLEAN, TIMES, TEXT)).all()


@pytest.mark.paper("LANCE-D-silent-hook")
def test_a_unet_without_attention_is_refused() -> None:
    bare = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        mid_block_type=None,
    )
    with pytest.raises(AttentionNotHooked, match="0 self- and 0 cross-attention layers"):
        attach(bare)


class OtherRelease(torch.nn.Module):
    """A UNet of a library release with other hooks: no known places, or places that accept no processor."""

    def __init__(self, places: dict[str, object]) -> None:
        super().__init__()
        self.attn1 = torch.nn.Identity()
        self.attn_processors = places

    def set_attn_processor(self, processors: dict[str, object]) -> None:
        assert processors.keys() >= self.attn_processors.keys()


@pytest.mark.paper("LANCE-D-silent-hook")
@pytest.mark.parametrize("places", [{}, {"attn1.processor": "deaf"}])
def test_hooking_a_unet_without_hookable_layers_raises(places: dict[str, object]) -> None:
    unet = OtherRelease(places)
    assert len(attention_sites(unet)) == 1
    with pytest.raises(AttentionNotHooked):
        attach(unet)


def test_an_attention_mask_is_refused(denoiser: UNetDenoiser) -> None:
    unet = tiny_unet().double()
    attach(unet)
    with pytest.raises(InternalError, match="mask"):
        unet(CLEAN, TIMES, TEXT, encoder_attention_mask=torch.ones(2, LENGTH))


def test_edits_through_the_unet_match_the_oracle(denoiser: UNetDenoiser) -> None:
    swap = align(words(5, 6, 7), words(5, 9, 7))
    task = EditTask(0, EDITED[0], cross_edit(swap, LENGTH, word_weight=2.0))
    inverted = direct_inversion(denoiser, TABLE, CLEAN, TEXT, NULL)
    settings = EditSettings(guidance=3.0, cross_replace=0.7, self_replace=(0.4, 0.7))
    fast = edit(denoiser, TABLE, inverted, TEXT, [task], settings).latents[0]
    path = invert(denoiser, CLEAN[:1], TEXT[:1], STEPS)
    for value, self_steps in enumerate((1, 2)):
        _, target = prompt_to_prompt(
            denoiser, [part.detach() for part in path], (TEXT[:1], EDITED), [NULL[None]] * STEPS,
            carried={j: [(j, 1.0)] for j in range(LENGTH)}, gains={2: 2.0}, guidance=3.0, cross_steps=2,
            self_steps=self_steps, pinned=True,
        )  # fmt: skip
        assert torch.allclose(fast[value], target[0], atol=1e-10, rtol=0)


def tolerance_between_the_images(model: PlainUNet) -> float:
    """A mean squared error that one image starts below and the other above."""
    losses = []
    for row in range(2):
        one, t = slice(row, row + 1), timesteps(STEPS)[0]
        with torch.no_grad():
            path = invert(model, CLEAN[one], TEXT[one], STEPS)
            uncond, cond = call(model, path[-1], t, NULL[None]), call(model, path[-1], t, TEXT[one])
        reached = denoise(path[-1], uncond + 3.0 * (cond - uncond), t, STEPS)
        losses.append(float((reached - path[-2]).square().mean()))
    return sum(losses) / 2


@pytest.mark.parametrize("parity", ["paper", "released"])
def test_null_text_edits_through_the_unet_match_the_reference(denoiser: UNetDenoiser, parity: Parity) -> None:
    swap, plain = align(words(5, 6, 7), words(5, 9, 7)), PlainUNet(tiny_unet().double())
    base = replace_words(swap, LENGTH) if parity == "paper" else refine(swap, LENGTH)
    weighted = [EditTask(row, EDITED[0], reweight(base, swap.added, 2.0)) for row in range(2)]
    inner = NullTextSettings(guidance=3.0, inner_steps=3, tolerance=tolerance_between_the_images(plain))
    settings = EditSettings(guidance=3.0, cross_replace=0.7, self_replace=(0.4, 0.7))
    made = null_text_edit(denoiser, TABLE, CLEAN, TEXT, NULL, inner, weighted, settings)
    latents = made.edited.latents
    if parity == "released":  # which weighs words at its first sweep value alone
        bare = [EditTask(row, EDITED[0], base) for row in range(2)]
        rest = edit(denoiser, TABLE, made.inverted, TEXT, bare, replace(settings, self_replace=(0.7,)))
        latents = torch.cat([latents[:, :1], rest.latents], dim=1)
    kept = range(LENGTH) if parity == "paper" else (0, 1, 3, 4, 5)
    target = Target(EDITED, {j: [(j, 1.0)] for j in kept}, {2: 2.0})
    for row in range(2):
        one = slice(row, row + 1)
        theirs = reference_run(
            plain, CLEAN[one], TEXT[one], NULL[None], [target], parity=parity, steps=STEPS, guidance=3.0,
            cross_replace=0.7, inner_steps=3, tolerance=inner.tolerance, sweep=(0.4, 0.7),
        )  # fmt: skip
        assert made.inverted.inner_iterations[row].tolist() == theirs.inversion.iterations
        pairs = (
            (made.inverted.uncond[row], torch.cat(theirs.inversion.embeddings)),
            (made.inverted.trajectory[row], torch.cat(theirs.inversion.visited)),
            (latents[row], torch.cat(theirs.images)),
        )
        assert all(torch.allclose(ours, known, atol=1e-10, rtol=0) for ours, known in pairs)
    assert not made.inverted.inner_iterations[0].equal(made.inverted.inner_iterations[1])


def test_a_scheduler_configuration_becomes_a_noise_schedule() -> None:
    read = schedule_from_config(
        {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
         "prediction_type": "v_prediction", "steps_offset": 1, "set_alpha_to_one": False}
    )  # fmt: skip
    assert read == NoiseSchedule(prediction="v_prediction")
    assert schedule_from_config({}).beta_schedule == "linear"


def test_only_plain_calls_run_compiled_and_give_the_same() -> None:
    torch.manual_seed(4)
    unet, taken, graphs = tiny_unet(), list[int](), list[torch.fx.GraphModule]()
    calls = [draw(rows, 4, 4, 4, seed=rows) for rows in (2, 3, 5)]
    text, level = draw(5, LENGTH, WIDTH, seed=1), torch.full((5,), 500)
    denoiser = UNetDenoiser(unet)
    with torch.no_grad():
        before = [denoiser(latents, level[: len(latents)], text[: len(latents)]) for latents in calls]

    def counted(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        graphs.append(graph)

        def run(*args: object) -> object:
            taken.append(1)
            return graph(*args)

        return run

    denoiser.compile(backend=counted)
    with torch.no_grad():
        after = [denoiser(latents, level[: len(latents)], text[: len(latents)]) for latents in calls]
    assert taken
    assert len(graphs) == 1, "each number of rows is compiled anew"
    for one, other in zip(before, after, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    taken.clear()
    leaf = text[:2].clone().requires_grad_()
    denoiser(calls[0], level[:2], leaf).sum().backward()
    with torch.no_grad(), denoiser.in_mode(Mode(float32=True)):
        denoiser(calls[0], level[:2], text[:2])
    assert not taken
