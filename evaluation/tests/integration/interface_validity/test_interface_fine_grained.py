"""Fine-grained bus codes: generated once by the product, judged by the oracle, summarised as figures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_miniature.world.seeds import DEVELOPMENT
from evaluation.interface_validity.fine_grained_figures import fine_grained_figures
from evaluation.interface_validity.fine_grained_images import (
    ANOTHER_BUS,
    FINE_SHIFTS,
    NO_BUS,
    FineGrained,
    FineImageSource,
    joined_fine_grained,
    words_of,
)
from evaluation.interface_validity.fine_grained_run import fine_grained
from evaluation.interface_validity.fine_grained_world import FINE_CLASSES
from evaluation.interface_validity.order import Order
from evaluation.tests.fakes.fine_grained import BusGateway, BusService, fine_image

SNOW = "in the snow"


def generator() -> np.random.Generator:
    return np.random.default_rng(3)


def order_in(state: Path) -> Order:
    return Order(state=state, split=DEVELOPMENT, number=0, learned=1, images=2, smoke=True)


def test_every_source_generates_every_code_from_the_same_seeds(tmp_path: Path) -> None:
    gateway = BusGateway()
    found = fine_grained(order_in(tmp_path), BusService(tmp_path, gateway))
    count = Counter((one.image_source, one.code, one.shift, one.seed) for one in found.images)
    assert len(count) == len(found.images) == 3 * 6 * (1 + len(FINE_SHIFTS)) * 2
    assert {(one.image_source, one.seed) for one in found.images} == {
        (image_source, seed) for image_source in get_args(FineImageSource) for seed in (0, 1)
    }
    # The token draws what a code stands for; the shared word draws a yellow bus for every code.
    figures = fine_grained_figures(found, generator())
    assert (figures.token.code.estimate or 0.0) > 0.9
    assert (figures.token.shift_presence.estimate or 0.0) > 0.9
    assert (figures.description.code.estimate or 0.0) > 0.9
    assert figures.shared_word.code.estimate == 0.0
    assert found.shares == {code: [0.5] for code in FINE_CLASSES}


@pytest.mark.paper("DI-AD-broad-init")
def test_codes_are_learned_from_one_word_with_captions(tmp_path: Path) -> None:
    gateway = BusGateway()
    service = BusService(tmp_path, gateway)
    fine_grained(order_in(tmp_path), service)
    (asked,) = gateway.bodies("/v1/dataset-interfaces")
    assert (asked["token_init"], asked["prompts"], asked["steps"]) == ("bus", "captions", 2)
    (sources,) = gateway.bodies("/sources")
    labels = [one["label"] for one in sources["sources"]]  # type: ignore[attr-defined]  # a JSON body
    assert labels == list(FINE_CLASSES)
    assert "A photo of a bus in the snow" in service.prompts
    assert "a sketch of a green double-decker bus on the grass" in service.prompts
    assert not any(code in prompt for prompt in service.prompts for code in FINE_CLASSES)


def test_only_missing_images_are_requested_again(tmp_path: Path) -> None:
    first = fine_grained(order_in(tmp_path), BusService(tmp_path, BusGateway()))
    (kept,) = tmp_path.glob("development-0/fine-grained-*/f301-*.json")
    kept.unlink()
    gateway = BusGateway()
    again = fine_grained(order_in(tmp_path), BusService(tmp_path, gateway))
    assert again == first
    assert {body["class_name"] for body in gateway.bodies("/generate")} == {"f301"}
    assert not gateway.bodies("/v1/dataset-interfaces")


def test_an_error_names_the_code_without_a_token(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="'f202' has no token: no image can be read"):
        fine_grained(order_in(tmp_path), BusService(tmp_path, BusGateway(unlearned="f202")))
    # It is requested again next time: incomplete results are not kept.
    assert not list(tmp_path.glob("development-0/fine-grained-*/tokens.json"))


def test_a_code_stands_for_a_kind_and_a_colour() -> None:
    assert fine_image().shows_code
    other_colour, other_kind = fine_image(colour="blue"), fine_image(kind="special")
    assert (other_colour.shown, other_colour.shows_kind, other_colour.shows_colour) == ("f201", True, False)
    assert (other_kind.shown, other_kind.shows_kind, other_kind.shows_colour) == ("f102", False, True)
    assert fine_image(colour="yellow").shown == ANOTHER_BUS
    tram = fine_image(object_class="tram")
    assert (tram.shown, tram.shows_code, tram.shows_kind) == (NO_BUS, False, True)


def test_figures_count_what_the_images_show() -> None:
    right = [
        fine_image(seed=seed, shift=shift, background="snow") for seed in range(10) for shift in (BASE, SNOW)
    ]
    wrong = [fine_image(seed=seed, colour="blue") for seed in range(10, 20)]
    other = [fine_image(seed=seed, code="f302", object_class="tram", shift=SNOW) for seed in range(5)]
    word = [
        fine_image("shared-word", seed=seed, colour="red" if seed < 5 else "yellow") for seed in range(20)
    ]
    found = fine_grained_figures(FineGrained([*right, *wrong, *other, *word], {"f101": [1.0]}), generator())
    token = found.token
    assert (token.code.estimate, token.code.n) == (20 / 35, 35)
    assert (token.kind.estimate, token.colour.estimate) == (30 / 35, 20 / 35)
    assert token.object_class.estimate == 30 / 35
    assert (token.shift_presence.estimate, token.shift_presence.n) == (10 / 15, 15)
    assert token.by_code["f101"].estimate == 20 / 30
    assert (token.by_condition[BASE].estimate, token.by_condition[SNOW].n) == (0.5, 15)
    assert token.confusion["f101"] == dict.fromkeys([*FINE_CLASSES, ANOTHER_BUS, NO_BUS], 0) | {
        "f101": 20,
        "f201": 10,
    }
    assert token.confusion["f302"][NO_BUS] == 5
    assert found.shared_word.confusion["f101"][ANOTHER_BUS] == 15
    lead = found.above_shared_word
    assert lead.estimate == pytest.approx(20 / 35 - 5 / 20)
    assert lead.n == 55
    assert lead.low is not None
    assert lead.high is not None
    assert -1.0 < lead.low < 20 / 35 - 5 / 20 < lead.high < 1.0
    assert found.shifts == [SNOW]
    assert found.codes["f302"] == "green double-decker bus"
    assert found.description.code.estimate is None


def test_only_the_description_source_spells_out_a_code() -> None:
    assert {words_of("shared-word", code) for code in FINE_CLASSES} == {"bus"}
    assert {words_of("token", code) for code in FINE_CLASSES} == {None}
    assert words_of("description", "f301") == "white bus"


def test_seed_ranges_are_joined_and_missing_ones_are_skipped() -> None:
    first = FineGrained([fine_image(seed=1)], {"f101": [0.5]})
    other = FineGrained([fine_image(seed=2)], {"f101": [1.0]})
    both = joined_fine_grained([first, None, other])
    assert both == FineGrained([fine_image(seed=1), fine_image(seed=2)], {"f101": [0.5, 1.0]})
    assert joined_fine_grained([None]) is None
