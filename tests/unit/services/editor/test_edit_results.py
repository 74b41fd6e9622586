"""Items of an editor call: errors stay with their item, and each image is charged once."""

from __future__ import annotations

import pytest
import torch

from counterpose_core.errors import CounterposeError, InvalidRequest, NumericalFailure, PromptTooLong
from counterpose_core.types import Cost
from counterpose_services.editor.edits.results import ItemLatents, charge_once, refusals, require_finite

OWN, INVERSION = Cost(unet_evaluations=3, unet_calls=1), Cost(unet_evaluations=40, vae_passes=1)


def made(value: float = 0.0) -> ItemLatents:
    return ItemLatents(torch.full((2, 4, 1, 1), value), OWN)


def evaluations(items: dict[int, ItemLatents]) -> dict[int, int]:
    return {index: item.cost.unet_evaluations for index, item in items.items()}


def test_the_first_item_of_an_image_pays_for_its_inversion() -> None:
    images = {0: "red", 1: "blue", 2: "red", 3: "blue"}
    charged = charge_once({2: made(), 0: made(), 3: made()}, images, {"red": INVERSION, "blue": INVERSION})
    assert evaluations(charged) == {2: 43, 0: 3, 3: 43}
    assert charged[2].cost.vae_passes == 1


def test_items_of_a_cached_inversion_pay_nothing_for_it() -> None:
    assert evaluations(charge_once({0: made()}, {0: "red"}, {"blue": INVERSION})) == {0: 3}


def test_an_item_without_a_result_pays_for_nothing() -> None:
    charged = charge_once({1: made()}, {0: "red", 1: "red"}, {"red": INVERSION})
    assert evaluations(charged) == {1: 43}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_only_non_finite_latents_become_an_error(value: float) -> None:
    refused = PromptTooLong("too long")
    results = require_finite({0: made(), 1: made(value), 2: refused}, "float16")
    assert isinstance(results[0], ItemLatents)
    assert isinstance(results[1], NumericalFailure)
    assert results[1].detail == "the latents of item 1 are not finite in float16"
    assert results[2] is refused


def test_refusals_name_the_position_of_each_refused_item() -> None:
    def check(text: str) -> None:
        if len(text) > 3:
            raise PromptTooLong(text)

    refused = refusals(["bus", "tramway", "sled"], check)
    assert {index: str(error) for index, error in refused.items()} == {1: "tramway", 2: "sled"}


def test_an_error_of_another_kind_ends_the_call() -> None:
    def check(_: str) -> None:
        raise InvalidRequest("a mark")

    with pytest.raises(InvalidRequest):
        refusals(["bus"], check, PromptTooLong)
    assert isinstance(refusals(["bus"], check)[0], CounterposeError)
