"""Invalid settings of services and suites are refused at their location before any computation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from counterpose_core.contract.editor import GenerateRequest
from counterpose_core.contract.perturber import PerturbItem
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.stress_tests import GateThresholds, StressTestCreate, TextThresholds
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import load_suite

NAN, INFINITY, BILLION = float("nan"), float("inf"), 10**9
GENERATE = {"items": [{"prompt": "a sled", "seed": 3}]}
PERTURB = {"caption": "a sled", "perturbation_type": "object", "n": 1, "seed": 3}
CREATE = {"dataset": "demo", "classifiers": ["steady"], "seed": 3}

BAD: dict[str, tuple[type[BaseModel], dict[str, Any], tuple[str | int, ...]]] = {
    "steps of 0": (PromptToPromptPreset, {"steps": 0}, ("steps",)),
    "steps of a billion": (PromptToPromptPreset, {"steps": BILLION}, ("steps",)),
    "steps of 2.5": (PromptToPromptPreset, {"steps": 2.5}, ("steps",)),
    "inner steps of a billion": (PromptToPromptPreset, {"inner_steps": BILLION}, ("inner_steps",)),
    "a guidance of NaN": (PromptToPromptPreset, {"guidance": NAN}, ("guidance",)),
    "a guidance of infinity": (PromptToPromptPreset, {"guidance": INFINITY}, ("guidance",)),
    "a guidance of 0": (PromptToPromptPreset, {"guidance": 0.0}, ("guidance",)),
    "a guidance of a billion": (PromptToPromptPreset, {"guidance": BILLION}, ("guidance",)),
    "a word weight of NaN": (PromptToPromptPreset, {"word_weight": NAN}, ("word_weight",)),
    "a cross replacement of 1.5": (PromptToPromptPreset, {"cross_replace": 1.5}, ("cross_replace",)),
    "a sweep value of NaN": (PromptToPromptPreset, {"self_replace": [0.5, NAN]}, ("self_replace", 1)),
    "a sweep of nothing": (PromptToPromptPreset, {"self_replace": []}, ("self_replace",)),
    "a sweep of a thousand": (PromptToPromptPreset, {"self_replace": [0.5] * 1000}, ("self_replace",)),
    "a backend that there is not": (PromptToPromptPreset, {"backend": "by-hand"}, ("backend",)),
    "generation in 0 steps": (GenerateRequest, GENERATE | {"steps": 0}, ("steps",)),
    "generation in a billion steps": (GenerateRequest, GENERATE | {"steps": BILLION}, ("steps",)),
    "generation by NaN": (GenerateRequest, GENERATE | {"guidance": NAN}, ("guidance",)),
    "generation at a resolution of 513": (GenerateRequest, GENERATE | {"resolution": 513}, ("resolution",)),
    "a seed of -1": (PerturbItem, PERTURB | {"seed": -1}, ("seed",)),
    "a seed of 2^64": (PerturbItem, PERTURB | {"seed": 2**64}, ("seed",)),
    "a seed of 3.0": (PerturbItem, PERTURB | {"seed": 3.0}, ("seed",)),
    "a seed in words": (PerturbItem, PERTURB | {"seed": "3"}, ("seed",)),
    "an empty caption": (PerturbItem, PERTURB | {"caption": ""}, ("caption",)),
    "a caption of a megabyte": (PerturbItem, PERTURB | {"caption": "x" * 10**6}, ("caption",)),
    "variants of 0": (PerturbItem, PERTURB | {"n": 0}, ("n",)),
    "variants of a billion": (PerturbItem, PERTURB | {"n": BILLION}, ("n",)),
    "an unknown kind of edit": (PerturbItem, PERTURB | {"perturbation_type": "moon"}, ("perturbation_type",)),
    "a limit of a billion": (StressTestCreate, CREATE | {"limit": BILLION}, ("limit",)),
    "a direction above 1": (GateThresholds, {"direction": 1.01}, ("direction",)),
    "a likeness of NaN": (GateThresholds, {"image_image": NAN}, ("image_image",)),
    "a likeness below -1": (GateThresholds, {"image_text": -1.01}, ("image_text",)),
    "a word's likeness above 1": (TextThresholds, {"word_similarity": 2.0}, ("word_similarity",)),
    "a mistyped threshold": (GateThresholds, {"directon": 0.2}, ("directon",)),
}  # fmt: skip


@pytest.mark.fault("B25", "B26", "B35", "B36", "B37", "B38")
@pytest.mark.parametrize("kind", BAD)
def test_an_invalid_setting_is_refused_at_its_location(kind: str) -> None:
    model, values, place = BAD[kind]
    with pytest.raises(ValidationError) as refused:
        model.model_validate(values)
    assert [one["loc"] for one in refused.value.errors()] == [place]


SUITE = """
name = "own"
description = "one's own"
[captioner]
model = "captioner"
min_tokens = {min_tokens}
max_tokens = 100
[perturber]
model = "perturber"
temperature = {temperature}
[editor]
model = "editor"
resolution = {resolution}
default_preset = {default_preset}
[editor.presets.quick]
steps = {steps}
[scorer]
clip = "clip"
sentence = "sentence"
masked_lm = "masked"
[scorer.gate]
direction = {direction}
[classifiers]
"""
GOOD = {"min_tokens": "20", "temperature": "1.0", "resolution": "512", "steps": "20", "direction": "0.2",
        "default_preset": '"quick"'}  # fmt: skip


def suite_file(folder: Path, **changes: str) -> str:
    file = folder / "own.toml"
    file.write_text(SUITE.format(**GOOD | changes), encoding="utf-8")
    return str(file)


@pytest.mark.fault("B36", "B37")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("default_preset", '"lance"'),
        ("resolution", "513"),
        ("resolution", "16384"),
        ("resolution", "0"),
        ("resolution", "-512"),
        ("steps", "0"),
        ("steps", "1000000000"),
        ("temperature", "nan"),
        ("temperature", "inf"),
        ("temperature", "0"),
        ("direction", "1.5"),
        ("direction", "nan"),
        ("min_tokens", "101"),
    ],
)
def test_a_suite_with_an_invalid_setting_is_refused_by_name(tmp_path: Path, field: str, value: str) -> None:
    assert load_suite(suite_file(tmp_path)).editor.resolution == 512
    with pytest.raises(InvalidRequest, match=field):
        load_suite(suite_file(tmp_path, **{field: value}))
