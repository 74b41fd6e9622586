"""The conditions of a benchmark: prompts, captions, and the thresholds that apply to the suite's CLIP."""

from __future__ import annotations

import pytest

from counterpose_core.errors import PromptTooLong
from counterpose_core.suite import load_suite
from counterpose_gateway.methods.shift_benchmark.datasets import conditions, find_condition, pointer
from fakes.benchmarks import benchmark_request
from fakes.world import fake_suite

SCORER = fake_suite().scorer


def test_published_thresholds_apply_only_to_the_published_clip() -> None:
    catalogue = benchmark_request(shifts="catalogue")
    paper = conditions(catalogue, ["plate"], load_suite("dataset-interfaces").scorer)
    assert {shift.threshold_from for shift in paper[1:]} == {"published"}
    assert all(shift.threshold is not None for shift in paper[1:])
    other = conditions(catalogue, ["plate"], SCORER)
    assert all(shift.threshold is None and shift.threshold_from is None for shift in other)


def test_a_suite_threshold_overrides_the_published_one() -> None:
    scorer = load_suite("dataset-interfaces").scorer.model_copy(
        update={"shift_thresholds": {"in the snow": 0.21, "on the moon": 0.3}}
    )
    found = conditions(benchmark_request(shifts=["in the snow", "on the moon"]), ["plate"], scorer)
    assert [(shift.threshold, shift.threshold_from) for shift in found[1:]] == [
        (0.21, "suite"),
        (0.3, "suite"),
    ]


def test_styles_are_distinguished_from_photographs() -> None:
    found = conditions(benchmark_request(shifts=["a pencil sketch of a <class>"]), ["plate"], SCORER)
    assert [shift.photo for shift in found] == [True, False]


def test_a_prompt_too_long_with_a_class_name_is_refused_before_generation() -> None:
    create = benchmark_request(shifts=["so " * 66 + "white"])
    conditions(create, ["plate"], SCORER)
    with pytest.raises(PromptTooLong, match="with the class") as caught:
        conditions(create, ["plate", "plate " * 10], SCORER)
    assert caught.value.pointer == "/shifts"


def test_a_condition_is_given_by_name_or_full_prompt() -> None:
    prompt = "a photo of an empty <class>"
    found = conditions(benchmark_request(shifts=[prompt, "in the snow"]), ["plate"], SCORER)
    assert find_condition(found, "In the  snow") == found[2]
    assert find_condition(found, prompt) == found[1] == find_condition(found, found[1].name)
    assert find_condition(found, "in the fog") is None


def test_request_locations_are_json_pointers() -> None:
    assert pointer("class_shifts", "a/b~c", 0) == "/class_shifts/a~1b~0c/0"
