"""Vectors learned for classes: the reference's optimisation, alone, in company and in links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from faultline_core.editing.denoiser import AttentionControl, CountingDenoiser, Denoiser
from faultline_core.editing.driver import Driver
from faultline_core.editing.lesson import Draws, Learned, Learning, Lesson, Sample
from faultline_core.editing.noise_schedule import NoiseSchedule, PredictionType
from faultline_core.editing.textual_inversion import (
    TextualInversionSettings,
    pinned,
    textual_inversion,
    textual_inversion_walk,
)
from faultline_core.errors import Cancelled
from faultline_core.types import Cost
from oracles.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

TEMPLATES, PICTURES, SLOT = 3, 5, 3
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


def lesson(
    name: str, *, until: int = 12, vectors: int = 1, batch: int = 2, dtype: torch.dtype = torch.float64
) -> Lesson:
    number = NAMES.index(name)
    shown = draw(PICTURES, 2, 2, 4, 4, seed=50 + number, dtype=dtype)
    initial = draw(vectors, WIDTH, seed=60 + number, dtype=dtype)

    def latents(sample: Sample) -> Tensor:
        return shown[sample.picture, int(sample.mirrored)]

    draws = Draws(
        seed=7, key=name, pictures=PICTURES, templates=TEMPLATES, timesteps=1000, batch=batch, flip=0.5
    )
    return Lesson(draws, initial, Learning.start(initial), until, latents)


def learn(
    lessons: Sequence[Lesson],
    *,
    schedule: NoiseSchedule = SCHEDULE,
    settings: TextualInversionSettings = SETTINGS,
    dtype: torch.dtype = torch.float64,
    denoiser: Denoiser | None = None,
) -> list[Learned]:
    model = denoiser or TinyAttention(dtype=dtype)
    return textual_inversion(model, lessons, Reader(dtype), schedule, settings)


def by_the_book(lesson: Lesson, schedule: NoiseSchedule, settings: TextualInversionSettings) -> Tensor:
    """One class by torch's own optimiser and loss, a sample at a time."""
    vectors = lesson.initial.clone().requires_grad_()
    optimiser = torch.optim.AdamW(
        [vectors], lr=settings.learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=settings.weight_decay
    )
    levels, read, network = schedule.alphas_cumprod(), Reader(), TinyAttention()
    for step in range(lesson.until):
        samples = lesson.draws.samples(step)
        losses = []
        for sample, noise in zip(samples, lesson.draws.noise(step, (2, 4, 4)).double(), strict=True):
            clean, level = lesson.latents(sample), levels[sample.timestep]
            used = vectors
            if settings.pin_norm:
                used = vectors * lesson.initial.norm(dim=1, keepdim=True) / vectors.norm(dim=1, keepdim=True)
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


@pytest.mark.parametrize("pin_norm", [True, False])
@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_a_class_comes_to_what_torchs_own_optimiser_makes_of_it(
    prediction: PredictionType, vectors: int, pin_norm: bool
) -> None:
    schedule, settings = NoiseSchedule(prediction=prediction), replace(SETTINGS, pin_norm=pin_norm)
    one = lesson("boat", vectors=vectors)
    (learned,) = learn([one], schedule=schedule, settings=settings)
    assert torch.allclose(learned.state.vectors, by_the_book(one, schedule, settings), atol=1e-10, rtol=0)
    assert learned.state.step == len(learned.losses) == one.until
    assert not learned.state.vectors.allclose(one.initial, atol=0.02)


def test_the_defaults_are_the_references() -> None:
    settings = TextualInversionSettings()
    assert (settings.learning_rate, settings.weight_decay, settings.pin_norm) == (5e-4, 1e-2, True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_what_shares_the_batch_changes_nothing(dtype: torch.dtype, tolerance: float) -> None:
    lessons = [lesson(name, dtype=dtype) for name in NAMES]
    together = learn(lessons, dtype=dtype)
    for one, learned in zip(lessons, together, strict=True):
        (alone,) = learn([one], dtype=dtype)
        assert torch.allclose(alone.state.vectors, learned.state.vectors, atol=tolerance, rtol=0)
        assert alone.losses == pytest.approx(learned.losses, abs=10 * tolerance)
    ends = [learned.state.vectors for learned in together]
    assert not ends[0].allclose(ends[1], atol=0.1)


def test_a_chain_of_links_is_one_long_run() -> None:
    whole = lesson("boat", until=12)
    (straight,) = learn([whole])
    state, losses = whole.state, list[float]()
    for until in (5, 6, 12):
        (link,) = learn([replace(whole, state=state, until=until)])
        state = link.state
        losses += link.losses
    assert state.vectors.equal(straight.state.vectors)
    assert state.first.equal(straight.state.first)
    assert state.second.equal(straight.state.second)
    assert tuple(losses) == straight.losses


def test_classes_that_began_earlier_and_end_later_share_a_batch() -> None:
    (begun,) = learn([lesson("boat", until=4)])
    late = replace(lesson("boat", until=7), state=begun.state)
    found = learn([late, lesson("tram", until=9), replace(lesson("sled"), until=0)])
    assert [len(each.losses) for each in found] == [3, 9, 0]
    for one, name, until in zip(found, NAMES, (7, 9, 0), strict=True):
        (alone,) = learn([lesson(name, until=until)])
        assert torch.allclose(one.state.vectors, alone.state.vectors, atol=1e-10, rtol=0)


@pytest.mark.parametrize("pin_norm", [True, False])
def test_a_pinned_norm_is_the_initialisers_at_every_step(pin_norm: bool) -> None:
    reader, one = Reader(), lesson("boat", vectors=2)
    textual_inversion(TinyAttention(), [one], reader, SCHEDULE, replace(SETTINGS, pin_norm=pin_norm))
    norms = torch.stack([shown[0].norm(dim=1) for shown in reader.shown])
    assert (norms - one.initial.norm(dim=1)).abs().max().item() < (1e-12 if pin_norm else 1)
    assert norms.allclose(norms[0]) is pin_norm


def test_vectors_that_have_not_moved_are_pinned_to_themselves_exactly() -> None:
    vectors = draw(4, WIDTH, seed=3)
    assert pinned(vectors, vectors).equal(vectors)


def test_the_vectors_settle_where_the_loss_is_least() -> None:
    grey = torch.full((2, 4, 4), 2.0, dtype=torch.float64)

    def tint(
        latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        return text.mean(dim=(1, 2))[:, None, None, None].expand(latents.shape)

    def read(templates: Sequence[int], owners: Sequence[int], vectors: Tensor) -> Tensor:
        return vectors[list(owners)]

    one = replace(lesson("boat", until=150, batch=8), latents=lambda _: grey)
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


def test_a_class_that_breaks_leaves_its_neighbours_alone() -> None:
    lessons = [lesson("boat", batch=1), lesson("tram", batch=1)]
    broken, going_on = learn(lessons, denoiser=Poisoned(4))
    assert broken.broken
    assert (broken.state.step, len(broken.losses)) == (3, 4)
    assert bool(torch.isfinite(broken.state.vectors).all())
    assert not going_on.broken
    assert going_on.state.vectors.allclose(learn([lessons[1]])[0].state.vectors, atol=1e-10, rtol=0)


def test_an_initialiser_that_is_not_finite_is_found_at_the_first_step() -> None:
    sick = lesson("tram")
    spoilt = replace(sick, state=Learning.start(sick.initial * torch.nan))
    healthy, broken = learn([lesson("boat"), spoilt])
    assert (healthy.broken, broken.broken, len(broken.losses)) == (False, True, 1)


def test_each_class_pays_for_its_own_samples() -> None:
    lessons = [lesson("boat", until=3), lesson("tram", until=2, batch=1)]
    counting = CountingDenoiser(TinyAttention())
    driver = Driver(counting)
    driver.run(textual_inversion_walk(lessons, Reader(), SCHEDULE, SETTINGS, NAMES[:2]))
    counted = {"unet_evaluations": 6, "unet_backward_evaluations": 6, "unet_calls": 3, "host_syncs": 3}
    assert driver.cost("boat") == Cost(**counted)
    assert driver.cost("tram").unet_evaluations == driver.cost("tram").unet_backward_evaluations == 2
    assert counting.cost.unet_evaluations == 8
    assert counting.cost.unet_calls == 3


def test_calls_are_cut_to_what_fits_with_equal_result() -> None:
    lessons, counting = [lesson("boat", batch=3), lesson("tram", batch=3)], CountingDenoiser(TinyAttention())
    walk = textual_inversion_walk(lessons, Reader(), SCHEDULE, SETTINGS, NAMES[:2])
    cut = Driver(counting, batch=2).run(walk)
    assert counting.cost.unet_calls == 12 * 3
    for one, whole in zip(cut, learn(lessons), strict=True):
        assert torch.allclose(one.state.vectors, whole.state.vectors, atol=1e-10, rtol=0)


def test_cancellation_is_asked_for_before_every_step() -> None:
    polls = iter([False] * 5)
    counting = CountingDenoiser(TinyAttention())
    with pytest.raises(Cancelled):
        textual_inversion(
            counting, [lesson("boat")], Reader(), SCHEDULE, SETTINGS, cancelled=lambda: next(polls, True)
        )
    assert counting.cost.unet_calls == 5


def test_every_picture_comes_once_in_an_epoch() -> None:
    draws = lesson("boat", batch=2).draws
    shown = [sample.picture for step in range(5) for sample in draws.samples(step)]
    assert sorted(shown[:PICTURES]) == sorted(shown[PICTURES:]) == list(range(PICTURES))
    assert shown[:PICTURES] != shown[PICTURES:]


def test_a_step_is_drawn_by_seed_and_class_and_nothing_else() -> None:
    draws = lesson("boat").draws
    assert draws.samples(9) == draws.samples(9)
    assert draws.noise(9, (2, 3)).equal(draws.noise(9, (2, 3)))
    others = [replace(draws, seed=8), replace(draws, key="tram")]
    assert not any(draws.noise(9, (2, 3)).equal(other.noise(9, (2, 3))) for other in others)
    assert not draws.noise(8, (2, 3)).equal(draws.noise(9, (2, 3)))
    assert all(
        [draws.samples(step) for step in range(5)] != [other.samples(step) for step in range(5)]
        for other in others
    )


@pytest.mark.parametrize(("flip", "mirrored"), [(0.0, 0), (1.0, 400), (0.5, 200)])
def test_pictures_are_mirrored_as_often_as_asked(flip: float, mirrored: int) -> None:
    draws = replace(lesson("boat").draws, flip=flip)
    count = sum(sample.mirrored for step in range(200) for sample in draws.samples(step))
    assert abs(count - mirrored) <= (40 if flip == 0.5 else 0)


def test_timesteps_and_templates_are_drawn_from_all_there_are() -> None:
    draws = lesson("boat").draws
    samples = [sample for step in range(300) for sample in draws.samples(step)]
    assert {sample.template for sample in samples} == set(range(TEMPLATES))
    times = [sample.timestep for sample in samples]
    assert min(times) < 20
    assert max(times) > 980
