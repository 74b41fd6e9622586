"""Bodies of learning tokens: what cannot be is refused before anything is computed."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from faultline_core.contract.tokens import (
    LearnTokenItem,
    LearnTokensRequest,
    PromptTemplates,
    TextualInversionPreset,
    TokenDescription,
)

IMAGE = "0" * 64
ITEM = {"class_name": "boat", "images": [IMAGE]}
REQUEST: dict[str, Any] = {"items": [ITEM], "preset": {}, "seed": 1}


def named(*names: str) -> dict[str, Any]:
    return REQUEST | {"items": [ITEM | {"class_name": name} for name in names]}


def test_a_request_has_the_released_codes_values_and_links_of_a_hundred_steps_unless_told() -> None:
    request = LearnTokensRequest.model_validate(REQUEST)
    assert request.preset == TextualInversionPreset()
    assert (request.preset.steps, request.link_steps) == (3000, 100)
    assert (request.items[0].initialiser, request.items[0].checkpoint) == (None, None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": None}, "seed"),
        ({"link_steps": 0}, "link_steps"),
        ({"items": []}, "items"),
        ({"preset": {"learning_rate": 0.0}}, "learning_rate"),
        ({"preset": {"learning_rate": float("nan")}}, "learning_rate"),
        ({"preset": {"steps": 0}}, "steps"),
        ({"preset": {"vectors": 0}}, "vectors"),
        ({"preset": {"flip": 1.5}}, "flip"),
        ({"preset": {"weight_decay": -0.1}}, "weight_decay"),
        ({"preset": {"templates": {"name": "none", "prompts": []}}}, "prompts"),
        ({"preset": {"templates": {"name": "a/b", "prompts": ["a <class>"]}}}, "name"),
        ({"items": [ITEM | {"class_name": ""}]}, "class_name"),
        ({"items": [ITEM | {"images": ["boat.png"]}]}, "images"),
        ({"items": [ITEM | {"prompts": ["a <class>"] * 2}]}, "2 prompts for 1 images"),
    ],
)
def test_values_out_of_range_are_refused_at_their_place(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        LearnTokensRequest.model_validate(REQUEST | change)


@pytest.mark.parametrize("names", [("boat", "boat"), ("boat", "tram", "Boat "), ("red  boat", "Red Boat")])
def test_two_classes_under_one_name_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="two classes are named"):
        LearnTokensRequest.model_validate(named(*names))


def test_classes_under_names_of_their_own_share_a_request() -> None:
    assert len(LearnTokensRequest.model_validate(named("boat", "boats", "row boat")).items) == 3


def test_a_class_without_a_picture_is_that_classs_problem_and_not_the_requests() -> None:
    assert LearnTokenItem.model_validate(ITEM | {"images": []}).images == []


@pytest.mark.parametrize(
    ("prompt", "told"),
    [("a boat", "no slots"), ("a <class> and a <class>", "2 slots"), ("a <Class>", "another way")],
)
def test_a_template_has_exactly_one_slot(prompt: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        PromptTemplates(name="own", prompts=("a <class>", prompt))


def test_a_description_outlives_fields_that_it_does_not_know() -> None:
    told = {
        "class_name": "boat", "initialiser": "boat", "model": {"id": "m", "revision": "r"}, "width": 8,
        "vectors": 1, "steps": 9, "pin_norm": True, "templates": "photo",
    }  # fmt: skip
    assert TokenDescription.model_validate(told | {"later": 1}) == TokenDescription.model_validate(told)
