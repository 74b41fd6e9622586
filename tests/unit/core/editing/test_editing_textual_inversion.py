"""Learning class vectors: the reference's optimisation, alone, in batches and in links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from counterpose_core.editing.denoiser import AttentionControl, CountingDenoiser, Denoiser
from counterpose_core.editing.noise_schedule import NoiseSchedule, PredictionType
from counterpose_core.editing.textual_inversion import (
    TextualInversionSettings,
    pinned,
    textual_inversion_walk,
)
from counterpose_core.editing.training_task import Learned, Learning, Sample, SampleStream, TokenTask
from counterpose_core.errors import Cancelled
from counterpose_core.types import Cost
from evaluation.reference.plain_driver import Driver, textual_inversion
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

TEMPLATES, IMAGES, SLOT = 3, 5, 3
SCHEDULE = NoiseSchedule()
VELOCITY = NoiseSchedule(prediction="v_prediction")
SETTINGS = TextualInversionSettings(learning_rate=0.02)
NAMES = ("boat", "tram", "sled")


class Reader:
    """A text encoder of one layer, whose words look at each other; notes the vectors it is shown."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        self._templates = draw(TEMPLATES, LENGTH, WIDTH, seed=40, dtype=dtype)
        self._mix = draw(LENGTH, LENGTH, seed=41, dtype=dtype) / LENGTH
        self.shown: list[Tensor] = []

    def __call__(self, templates: Sequence[int], owners: Sequence[int], vectors: Tensor) -> Tensor:
        self.shown.append(vectors.detach())
        words = self._templates[list(templates)]
        count = vectors.shape[1]
        parts = [words[:, :SLOT], vectors[list(owners)], words[:, SLOT + count :]]
        return torch.tanh(self._mix @ torch.cat(parts, dim=1))


def token_task(
    name: str, *, until: int = 12, vectors: int = 1, batch: int = 2, dtype: torch.dtype = torch.float64
) -> TokenTask:
    number = NAMES.index(name)
    shown = draw(IMAGES, 2, 2, 4, 4, seed=50 + number, dtype=dtype)
    initial = draw(vectors, WIDTH, seed=60 + number, dtype=dtype)

    def latents(sample: Sample) -> Tensor:
        return shown[sample.image, int(sample.mirrored)]

    stream = SampleStream(
        seed=7, key=name, images=IMAGES, templates=TEMPLATES, timesteps=1000, batch=batch, flip=0.5
    )
    return TokenTask(stream, initial, Learning.start(initial), until, latents)


def learn(
    tasks: Sequence[TokenTask],
    *,
    schedule: NoiseSchedule = SCHEDULE,
    settings: TextualInversionSettings = SETTINGS,
    dtype: torch.dtype = torch.float64,
    denoiser: Denoiser | None = None,
) -> list[Learned]:
    model = denoiser or TinyAttention(dtype=dtype)
    return textual_inversion(model, tasks, Reader(dtype), schedule, settings)


def by_the_book(task: TokenTask, schedule: NoiseSchedule, settings: TextualInversionSettings) -> Tensor:
    """One class by torch's own optimiser and loss, a sample at a time."""
    vectors = task.initial.clone().requires_grad_()
    optimiser = torch.optim.AdamW(
        [vectors], lr=settings.learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=settings.weight_decay
    )
    levels, read, network = schedule.alphas_cumprod(), Reader(), TinyAttention()
    for step in range(task.until):
        samples = task.stream.samples(step)
        losses = []
        for sample, noise in zip(samples, task.stream.noise(step, (2, 4, 4)).double(), strict=True):
            clean, level = task.latents(sample), levels[sample.timestep]
            used = vectors
            if settings.pin_norm:
                used = vectors * task.initial.norm(dim=1, keepdim=True) / vectors.norm(dim=1, keepdim=True)
            noisy = level.sqrt() * clean + (1 - level).sqrt() * noise
            target = noise
            if schedule.prediction == "v_prediction":
                target = level.sqrt() * noise - (1 - level).sqrt() * clean
            output = network(
                noisy[None], torch.tensor([sample.timestep]), read([sample.template], [0], used[None])
            )
            losses.append(mse_loss(output[0], target))
        optimiser.zero_grad()
        torch.stack(losses).mean().backward()
        optimiser.step()
    return vectors.detach()


@pytest.mark.paper("DI-S3-loss", "DI-C-betas", "DI-C-epsilon", "DI-C-decay")
@pytest.mark.parametrize("pin_norm", [True, False])
@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_learning_matches_the_torch_optimiser(
    prediction: PredictionType, vectors: int, pin_norm: bool
) -> None:
    schedule, settings = NoiseSchedule(prediction=prediction), replace(SETTINGS, pin_norm=pin_norm)
    one = token_task("boat", vectors=vectors)
    (learned,) = learn([one], schedule=schedule, settings=settings)
    assert torch.allclose(learned.state.vectors, by_the_book(one, schedule, settings), atol=1e-10, rtol=0)
    assert learned.state.step == len(learned.losses) == one.until
    assert not learned.state.vectors.allclose(one.initial, atol=0.02)


def test_the_defaults_match_the_reference() -> None:
    settings = TextualInversionSettings()
    assert (settings.learning_rate, settings.weight_decay, settings.pin_norm) == (5e-4, 1e-2, True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_results_do_not_depend_on_the_batch(dtype: torch.dtype, tolerance: float) -> None:
    tasks = [token_task(name, dtype=dtype) for name in NAMES]
    together = learn(tasks, dtype=dtype)
    for one, learned in zip(tasks, together, strict=True):
        (alone,) = learn([one], dtype=dtype)
        assert torch.allclose(alone.state.vectors, learned.state.vectors, atol=tolerance, rtol=0)
        assert alone.losses == pytest.approx(learned.losses, abs=10 * tolerance)
    ends = [learned.state.vectors for learned in together]
    assert not ends[0].allclose(ends[1], atol=0.1)


def test_a_chain_of_links_equals_one_long_run() -> None:
    whole = token_task("boat", until=12)
    (straight,) = learn([whole])
    state, losses = whole.state, list[float]()
    for until in (5, 6, 12):
        (link,) = learn([replace(whole, state=state, until=until)])
        state = link.state
        losses += link.losses
    for kept in ("vectors", "first", "second"):
        assert getattr(state, kept).allclose(getattr(straight.state, kept), atol=1e-10, rtol=0)
    assert losses == pytest.approx(straight.losses, abs=1e-9)


def test_classes_at_different_steps_share_a_batch() -> None:
    (begun,) = learn([token_task("boat", until=4)])
    late = replace(token_task("boat", until=7), state=begun.state)
    found = learn([late, token_task("tram", until=9), replace(token_task("sled"), until=0)])
    assert [len(each.losses) for each in found] == [3, 9, 0]
    for one, name, until in zip(found, NAMES, (7, 9, 0), strict=True):
        (alone,) = learn([token_task(name, until=until)])
        assert torch.allclose(one.state.vectors, alone.state.vectors, atol=1e-10, rtol=0)


@pytest.mark.paper("DI-C-norm")
@pytest.mark.parametrize("pin_norm", [True, False])
def test_a_pinned_norm_equals_the_initialiser_norm_at_every_step(pin_norm: bool) -> None:
    reader, one = Reader(), token_task("boat", vectors=2)
    textual_inversion(TinyAttention(), [one], reader, SCHEDULE, replace(SETTINGS, pin_norm=pin_norm))
    norms = torch.stack([shown[0].norm(dim=1) for shown in reader.shown])
    assert (norms - one.initial.norm(dim=1)).abs().max().item() < (1e-12 if pin_norm else 1)
    assert norms.allclose(norms[0]) is pin_norm


def test_pinning_leaves_unmoved_vectors_unchanged() -> None:
    vectors = draw(4, WIDTH, seed=3)
    assert pinned(vectors, vectors).equal(vectors)


@pytest.mark.paper("DI-S3-loss")
def test_the_vectors_converge_to_the_minimum_of_the_loss() -> None:
    grey = torch.full((2, 4, 4), 2.0, dtype=torch.float64)

    def tint(
        latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        return text.mean(dim=(1, 2))[:, None, None, None].expand(latents.shape)

    def read(templates: Sequence[int], owners: Sequence[int], vectors: Tensor) -> Tensor:
        return vectors[list(owners)]

    one = replace(token_task("boat", until=150, batch=8), latents=lambda _: grey)
    settings = TextualInversionSettings(learning_rate=0.05, weight_decay=0.0, pin_norm=False)
    (learned,) = textual_inversion(tint, [one], read, VELOCITY, settings)
    # Of a velocity, signal * noise - spread * clean, the noise cannot be known from the words.
    best = -2.0 * (1.0 - VELOCITY.alphas_cumprod()).sqrt().mean()
    assert float(learned.state.vectors.mean()) == pytest.approx(float(best), abs=0.15)
    assert abs(float(one.initial.mean()) - float(best)) > 1.0


class Poisoned(TinyAttention):
    """Answers NaN for latents of its own call number and row on."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self._left = calls

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        output = super().__call__(latents, timestep, text, control)
        self._left -= 1
        return output if self._left else output * torch.tensor([torch.nan, 1.0])[:, None, None, None]


def test_a_failing_class_does_not_affect_its_batch() -> None:
    tasks = [token_task("boat", batch=1), token_task("tram", batch=1)]
    broken, going_on = learn(tasks, denoiser=Poisoned(4))
    assert broken.broken
    assert (broken.state.step, len(broken.losses)) == (3, 4)
    assert bool(torch.isfinite(broken.state.vectors).all())
    assert not going_on.broken
    assert going_on.state.vectors.allclose(learn([tasks[1]])[0].state.vectors, atol=1e-10, rtol=0)


def test_a_non_finite_initialiser_fails_at_the_first_step() -> None:
    sick = token_task("tram")
    spoilt = replace(sick, state=Learning.start(sick.initial * torch.nan))
    healthy, broken = learn([token_task("boat"), spoilt])
    assert (healthy.broken, broken.broken, len(broken.losses)) == (False, True, 1)


def test_each_class_pays_for_its_own_samples() -> None:
    tasks = [token_task("boat", until=3), token_task("tram", until=2, batch=1)]
    counting = CountingDenoiser(TinyAttention())
    driver = Driver(counting)
    driver.run(textual_inversion_walk(tasks, Reader(), SCHEDULE, SETTINGS, NAMES[:2]))
    counted = {"unet_evaluations": 6, "unet_backward_evaluations": 6, "unet_calls": 3, "host_syncs": 3}
    assert driver.cost("boat") == Cost(**counted)
    assert driver.cost("tram").unet_evaluations == driver.cost("tram").unet_backward_evaluations == 2
    assert counting.cost.unet_evaluations == 8
    assert counting.cost.unet_calls == 3


def test_splitting_calls_to_fit_does_not_change_the_result() -> None:
    tasks, counting = (
        [token_task("boat", batch=3), token_task("tram", batch=3)],
        CountingDenoiser(TinyAttention()),
    )
    walk = textual_inversion_walk(tasks, Reader(), SCHEDULE, SETTINGS, NAMES[:2])
    cut = Driver(counting, batch=2).run(walk)
    assert counting.cost.unet_calls == 12 * 3
    for one, whole in zip(cut, learn(tasks), strict=True):
        assert torch.allclose(one.state.vectors, whole.state.vectors, atol=1e-10, rtol=0)


def test_cancellation_is_checked_before_every_step() -> None:
    polls = iter([False] * 5)
    counting = CountingDenoiser(TinyAttention())
    with pytest.raises(Cancelled):
        textual_inversion(
            counting, [token_task("boat")], Reader(), SCHEDULE, SETTINGS, cancelled=lambda: next(polls, True)
        )
    assert counting.cost.unet_calls == 5


def test_every_image_appears_once_per_epoch() -> None:
    stream = token_task("boat", batch=2).stream
    shown = [sample.image for step in range(5) for sample in stream.samples(step)]
    assert sorted(shown[:IMAGES]) == sorted(shown[IMAGES:]) == list(range(IMAGES))
    assert shown[:IMAGES] != shown[IMAGES:]


def test_a_step_depends_only_on_seed_and_class() -> None:
    stream = token_task("boat").stream
    assert stream.samples(9) == stream.samples(9)
    assert stream.noise(9, (2, 3)).equal(stream.noise(9, (2, 3)))
    others = [replace(stream, seed=8), replace(stream, key="tram")]
    assert not any(stream.noise(9, (2, 3)).equal(other.noise(9, (2, 3))) for other in others)
    assert not stream.noise(8, (2, 3)).equal(stream.noise(9, (2, 3)))
    assert all(
        [stream.samples(step) for step in range(5)] != [other.samples(step) for step in range(5)]
        for other in others
    )


@pytest.mark.paper("DI-C-images")
@pytest.mark.parametrize(("flip", "mirrored"), [(0.0, 0), (1.0, 400), (0.5, 200)])
def test_images_are_mirrored_at_the_requested_rate(flip: float, mirrored: int) -> None:
    stream = replace(token_task("boat").stream, flip=flip)
    count = sum(sample.mirrored for step in range(200) for sample in stream.samples(step))
    assert abs(count - mirrored) <= (40 if flip == 0.5 else 0)


@pytest.mark.paper("DI-C-templates")
def test_every_timestep_and_template_can_be_drawn() -> None:
    stream = token_task("boat").stream
    samples = [sample for step in range(300) for sample in stream.samples(step)]
    assert {sample.template for sample in samples} == set(range(TEMPLATES))
    times = [sample.timestep for sample in samples]
    assert min(times) < 20
    assert max(times) > 980
