"""Settings of sampling are refused before a run where a server draws the images, and count elsewhere."""

from __future__ import annotations

import pytest

from counterpose_core.contract.bug_hunts import BugHuntCreate
from counterpose_core.contract.editor import GenerationPreset
from counterpose_core.contract.shift_benchmarks import ShiftBenchmarkCreate
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import EditorSuite
from counterpose_core.text.word_policy import policy_of
from counterpose_gateway.steps.generation import generation_of
from counterpose_gateway.steps.label_images import shared_config
from fakes.world import CLASSES, fake_suite

SERVED = EditorSuite.model_validate(
    {
        "model": "editor-1", "server": "https://images.example/v1", "resolution": 64, "default_preset": "api",
        "presets": {"api": {"backend": "images-api", "text_to_image": True}},
    }
)  # fmt: skip


def hunt(**changes: object) -> BugHuntCreate:
    body = {"classifiers": ["leaning"], "labels": list(CLASSES), "seed": 3}
    return BugHuntCreate.model_validate(body | changes)


@pytest.mark.parametrize("changes", [{"steps": 20}, {"guidance": 2.0}, {"scheduler": "DDIMScheduler"}])
def test_a_hunt_that_sets_what_no_server_takes_is_refused_by_the_field(
    changes: dict[str, object],
) -> None:
    [name] = changes
    suite = fake_suite().model_copy(update={"editor_part": SERVED})
    with pytest.raises(InvalidRequest, match=f"which takes no {name}; leave it out") as caught:
        shared_config(hunt(**changes), CLASSES, suite, policy_of(()))
    assert caught.value.pointer == f"/{name}"
    assert shared_config(hunt(), CLASSES, suite, policy_of(()))["generation"] == GenerationPreset()


def test_models_that_are_loaded_take_them() -> None:
    own = fake_suite().editor
    changed = generation_of(own, own.generation, hunt(steps=20))
    assert changed == own.generation.model_copy(update={"steps": 20})


def test_a_benchmark_is_refused_too() -> None:
    body = {"interface": "mine", "classifiers": ["leaning"], "steps": 20, "seed": 3}
    with pytest.raises(InvalidRequest, match="takes no steps"):
        generation_of(SERVED, SERVED.generation, ShiftBenchmarkCreate.model_validate(body))
