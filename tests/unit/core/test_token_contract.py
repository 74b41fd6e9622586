"""Bodies of token learning: invalid ones are refused before any computation."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from counterpose_core.contract.tokens import (
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


def test_the_request_defaults_to_the_released_values_and_links_of_100_steps() -> None:
    request = LearnTokensRequest.model_validate(REQUEST)
    assert request.preset == TextualInversionPreset()
    assert (request.preset.steps, request.link_steps) == (3000, 100)
    assert (request.items[0].initialiser, request.items[0].checkpoint) == (None, None)


@pytest.mark.parametrize(
    ("change", "message"),
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
def test_values_out_of_range_are_refused_at_their_location(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LearnTokensRequest.model_validate(REQUEST | change)


@pytest.mark.fault("B40")
@pytest.mark.parametrize("names", [("boat", "boat"), ("boat", "tram", "Boat "), ("red  boat", "Red Boat")])
def test_duplicate_class_names_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="two classes are named"):
        LearnTokensRequest.model_validate(named(*names))


def test_classes_with_distinct_names_share_a_request() -> None:
    assert len(LearnTokensRequest.model_validate(named("boat", "boats", "row boat")).items) == 3


def test_a_class_without_images_fails_without_failing_the_request() -> None:
    assert LearnTokenItem.model_validate(ITEM | {"images": []}).images == []


@pytest.mark.fault("B33")
@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("a boat", "no slots"),
        ("a <class> and a <class>", "2 slots"),
        ("a <Class>", "misspells the class slot"),
    ],
)
def test_a_template_has_exactly_one_slot(prompt: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PromptTemplates(name="own", prompts=("a <class>", prompt))


def test_a_description_ignores_unknown_fields() -> None:
    fields = {
        "class_name": "boat", "initialiser": "boat", "model": {"id": "m", "revision": "r"}, "width": 8,
        "vectors": 1, "steps": 9, "pin_norm": True, "templates": "photo",
    }  # fmt: skip
    assert TokenDescription.model_validate(fields | {"later": 1}) == TokenDescription.model_validate(fields)
