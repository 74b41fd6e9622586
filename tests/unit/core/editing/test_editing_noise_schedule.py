import pytest
import torch
from diffusers import DDIMScheduler, LCMScheduler

from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.errors import InvalidRequest
from evaluation.reference.plain_editing import level_after, signal_levels, timesteps


@pytest.mark.paper("LANCE-T6-beta-start", "LANCE-T6-beta-end", "LANCE-T6-beta-schedule")
@pytest.mark.parametrize("steps", [1, 3, 20, 50, 100])
@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
def test_timesteps_match_diffusers(steps: int, spacing: str) -> None:
    theirs = DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        set_alpha_to_one=False,
        steps_offset=1,
        timestep_spacing=spacing,
    )
    theirs.set_timesteps(steps)
    table = NoiseSchedule(spacing=spacing).timetable(steps)  # type: ignore[arg-type]  # parametrised
    assert list(table.timesteps) == theirs.timesteps.tolist()
    levels = torch.tensor(table.levels[:-1])
    assert torch.allclose(levels, theirs.alphas_cumprod[theirs.timesteps], atol=1e-6)
    assert table.levels[-1] == pytest.approx(float(theirs.final_alpha_cumprod), abs=1e-7)


@pytest.mark.parametrize(("steps", "distilled"), [(1, 50), (4, 50), (7, 50), (50, 50), (3, 20)])
def test_distilled_model_timesteps_match_diffusers(steps: int, distilled: int) -> None:
    theirs = LCMScheduler(original_inference_steps=distilled)
    theirs.set_timesteps(steps)
    schedule = NoiseSchedule(spacing="distilled", distilled_steps=distilled, set_alpha_to_one=True)
    table = schedule.timetable(steps)
    assert list(table.timesteps) == theirs.timesteps.tolist()
    assert table.levels[-1] == 1.0
    with pytest.raises(InvalidRequest, match=f"the {distilled} the model was distilled on"):
        schedule.timetable(distilled + 1)


def test_a_requested_spacing_overrides_the_schedule() -> None:
    asked = NoiseSchedule().timetable(5, "trailing")
    assert asked == NoiseSchedule(spacing="trailing").timetable(5) != NoiseSchedule().timetable(5)


@pytest.mark.paper("LANCE-T6-beta-start", "LANCE-T6-beta-end", "LANCE-T6-beta-schedule")
def test_noise_levels_match_the_oracle() -> None:
    table, levels = NoiseSchedule().timetable(50), signal_levels()
    expected = [levels[t] for t in timesteps(50)] + [level_after(1, 50, levels)]
    assert table.levels == pytest.approx(expected, abs=1e-14)


def test_a_linear_schedule_keeps_its_betas() -> None:
    schedule = NoiseSchedule(beta_start=0.1, beta_end=0.3, train_steps=3, beta_schedule="linear")
    assert schedule.alphas_cumprod().tolist() == pytest.approx([0.9, 0.72, 0.504])


def test_the_last_level_is_one_if_the_model_requires_it() -> None:
    assert NoiseSchedule(set_alpha_to_one=True).timetable(5).levels[-1] == 1.0


@pytest.mark.parametrize("steps", [0, 1001])
def test_steps_outside_the_training_range_are_refused(steps: int) -> None:
    with pytest.raises(InvalidRequest, match=str(steps)):
        NoiseSchedule().timetable(steps)


def test_a_fraction_of_the_steps_is_not_truncated() -> None:
    table = NoiseSchedule().timetable(100)
    assert [table.first(f) for f in (0.0, 0.29, 0.57, 0.999, 1.0)] == [0, 29, 57, 99, 100]
