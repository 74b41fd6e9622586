"""Configurations of every scheduler of diffusers give the library's noise levels, or are refused by name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import diffusers
import pytest
import torch
from diffusers.schedulers.scheduling_utils import SchedulerMixin

from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.errors import InvalidRequest, ModelFormatRefused
from counterpose_services.editor.unet.schedulers import DiffusersScheduler
from counterpose_services.editor.unet.unet_denoiser import schedule_from_config

BETAS = torch.linspace(1e-4, 5e-2, 1000).tolist()
NAMES = sorted(
    name
    for name in dir(diffusers)
    # Other names of the library are not all there.
    if "Scheduler" in name
    and isinstance(kind := getattr(diffusers, name), type)
    and issubclass(kind, SchedulerMixin)
    and kind is not SchedulerMixin
)
CHANGES: tuple[Mapping[str, Any], ...] = (
    {},
    *({"beta_schedule": word} for word in ("linear", "scaled_linear", "squaredcos_cap_v2", "sigmoid", "exp")),
    {"beta_schedule": "laplace"},
    {"trained_betas": BETAS},
    {"trained_betas": BETAS, "beta_schedule": "scaled_linear", "prediction_type": "v_prediction"},
    {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction"},
    {"snr_shift_scale": 1.0},
    {"num_train_timesteps": 400, "beta_start": 0.001, "beta_end": 0.03},
    *({"prediction_type": word} for word in ("epsilon", "v_prediction", "sample", "flow_prediction")),
    *({"timestep_spacing": word} for word in ("leading", "trailing", "linspace")),
    {"use_karras_sigmas": True},
    {"use_flow_sigmas": True, "prediction_type": "flow_prediction"},
    {"set_alpha_to_one": False, "steps_offset": 1, "clip_sample": False},
)
BY_BETAS = {
    "CogVideoXDDIMScheduler", "CogVideoXDPMScheduler",  # without their shift of the levels
    "DDIMInverseScheduler", "DDIMParallelScheduler", "DDIMScheduler", "DDPMParallelScheduler",
    "DDPMScheduler", "DEISMultistepScheduler", "DPMSolverMultistepInverseScheduler",
    "DPMSolverMultistepScheduler", "DPMSolverSinglestepScheduler", "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler", "HeunDiscreteScheduler", "KDPM2AncestralDiscreteScheduler",
    "KDPM2DiscreteScheduler", "LCMScheduler", "LMSDiscreteScheduler", "PNDMScheduler", "RePaintScheduler",
    "SASolverScheduler", "TCDScheduler", "UnCLIPScheduler", "UniPCMultistepScheduler",
}  # fmt: skip


def saved(kind: Any, changes: Mapping[str, Any], folder: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield what a class saves with ``changes``, in full and without its defaults, and its scheduler."""
    known = inspect.signature(kind.__init__).parameters
    if not changes.keys() <= known.keys():
        return
    try:
        scheduler = kind(**changes)
    except (TypeError, ValueError, NotImplementedError, AttributeError):
        return  # The class itself refuses it, or needs more than its defaults.
    scheduler.save_config(folder)
    config = json.loads((folder / "scheduler_config.json").read_text())
    yield config, scheduler
    # Older releases wrote fewer fields.
    yield {"_class_name": config["_class_name"], **changes}, scheduler


def outcome(config: Mapping[str, Any]) -> NoiseSchedule | str:
    try:
        return schedule_from_config(config)
    except ModelFormatRefused as refused:
        return refused.detail


@pytest.mark.parametrize("name", NAMES)
def test_saved_configurations_give_the_library_s_noise_levels_or_are_refused_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, read = getattr(diffusers, name), 0
    # A table of times between two steps that nobody reads here: a quarter of a second for each scheduler.
    monkeypatch.setattr(kind, "_sigma_to_t", lambda *_: 0.0, raising=False)
    for changes in CHANGES:
        for config, scheduler in saved(kind, changes, tmp_path):
            if not isinstance(schedule := outcome(config), NoiseSchedule):
                assert repr(name) in schedule, changes
                continue
            theirs = scheduler.alphas_cumprod.double()
            assert torch.allclose(schedule.alphas_cumprod(), theirs, atol=1e-6, rtol=0.0), changes
            assert schedule.prediction == scheduler.config.get("prediction_type", "epsilon")
            assert schedule.spacing in (scheduler.config.get("timestep_spacing", "leading"), "distilled")
            read += 1
    assert (read > 0) == (name in BY_BETAS)


def test_the_library_has_the_classes_that_edits_can_use() -> None:
    assert set(NAMES) >= BY_BETAS


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"beta_schedule": "no-such-schedule"}, "no-such-schedule"),
        ({"_class_name": "NoSuchScheduler"}, "NoSuchScheduler"),
        ({"_class_name": "UNet2DConditionModel"}, "UNet2DConditionModel"),
        ({"_class_name": ["DDIMScheduler"]}, "DDIMScheduler"),
        ({"_class_name": "FlowMatchEulerDiscreteScheduler"}, "another way than by betas"),
        ({"_class_name": "CogVideoXDDIMScheduler"}, "shifts its noise levels"),
        ({"prediction_type": "sample"}, "prediction_type of the scheduler 'DDIMScheduler' is 'sample'"),
        ({"prediction_type": None}, "prediction_type of the scheduler 'DDIMScheduler' is None"),
        ({"timestep_spacing": "karras"}, "timestep_spacing of the scheduler 'DDIMScheduler' is 'karras'"),
        (
            {"_class_name": "UniPCMultistepScheduler", "use_flow_sigmas": True},
            "use_flow_sigmas of the scheduler 'UniPCMultistepScheduler' is True",
        ),
        ({"trained_betas": BETAS[:10]}, "10 noise levels for 1000 training steps"),
        ({"trained_betas": "none"}, "DDIMScheduler"),
        ({"beta_end": 3.0}, "not between 0 and 1"),
        ({"beta_start": "small"}, "DDIMScheduler"),
        ({"num_train_timesteps": "1000"}, "DDIMScheduler"),
        ({"rescale_betas_zero_snr": True}, "rescale_betas_zero_snr"),
    ],
)
def test_what_no_edit_can_use_is_refused_by_its_name(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelFormatRefused, match=words):
        schedule_from_config(config)


def test_a_schedule_without_signal_at_its_end_keeps_it() -> None:
    config = {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction"}
    table = schedule_from_config(config).timetable(5, "trailing")
    assert (table.timesteps[0], table.levels[0]) == (999, 0.0)


def test_missing_fields_take_the_defaults_of_their_own_class() -> None:
    read = {name: schedule_from_config({"_class_name": name}) for name in ("LCMScheduler", "PNDMScheduler")}
    assert read["LCMScheduler"].beta_schedule == "scaled_linear"
    assert not read["PNDMScheduler"].set_alpha_to_one
    assert schedule_from_config({"_class_name": "EulerDiscreteScheduler"}).spacing == "linspace"


def walk(name: Any, config: Mapping[str, Any]) -> DiffusersScheduler:
    return DiffusersScheduler(name, config, steps=3, generators=[], device=torch.device("cpu"))


@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("PNDMScheduler", {"_class_name": "DDPMScheduler", "beta_schedule": "sigmoid"}, "sigmoid"),
        ("PNDMScheduler", {"rescale_betas_zero_snr": True}, "noise levels that the model was trained on"),
        ("DDIMScheduler", {"_class_name": "LCMScheduler"}, "noise levels that the model was trained on"),
    ],
)
def test_another_scheduler_is_refused_where_it_cannot_compute_the_model_s_levels(
    name: str, config: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words) as refused:
        walk(name, config)
    assert refused.value.pointer == "/scheduler"
    assert name in refused.value.detail


def test_another_scheduler_walks_by_the_levels_of_trained_betas() -> None:
    assert len(walk("EulerDiscreteScheduler", {"trained_betas": BETAS}).timesteps) == 3
