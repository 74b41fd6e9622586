"""The report on dataset interfaces: from made-up pieces to a file that its schema holds."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from fakes.interfaces import LAYOUT, NIGHT, SNOW, answers, pictures, seen
from faultline_core.contract.shift_benchmarks import PictureItem
from faultline_core.shifts import BASE
from faultline_core.types import Cost
from interfaces.assembly import Pieces, report
from interfaces.joining import joined
from interfaces.pictures import Layout
from interfaces.report import InterfaceValidity
from interfaces.run_items import pictures_of
from validate_interface import ROOT, parsed

SCHEMA = ROOT / "demo" / "interface-validity.schema.json"
REPORT = ROOT / "demo" / "interface-validity.json"


def accuracy(shift: str, name: str, model: int) -> float:
    return {BASE: 0.8, SNOW: 0.7, NIGHT: 0.4}[shift] - 0.1 * model


def pieces(number: int = 0) -> Pieces:
    def by_name(shift: str, name: str, model: int) -> float:
        return accuracy(shift, name, model) - (0.2 if name == "plate" else 0.0)

    features = {name: np.random.default_rng(0).normal(size=(12, 4)) for name in LAYOUT.classes}
    cosines = {name: np.linspace(0.3, 0.5, 40) for name in LAYOUT.classes}
    return Pieces(
        seeds=[number],
        layout=LAYOUT,
        truth=answers(accuracy),
        pictures=[*pictures("token", accuracy), *pictures("class-name", by_name)],
        real_features=features,
        real_similarities=cosines,
        real_style_similarities=cosines,
        base_features={"token": features, "class-name": features},
        shift_thresholds={SNOW: 0.2, NIGHT: 0.2},
        tokens=[Cost(unet_evaluations=10, seconds=1.0)] * 2,
        seconds={"zoo": 2.0},
    )


def made(given: Pieces | None = None) -> InterfaceValidity:
    return report(given or pieces(), np.random.default_rng(0))


def test_the_checked_in_schema_is_the_reports() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == InterfaceValidity.model_json_schema(
        mode="serialization"
    )


def test_a_report_holds_to_its_schema_and_the_checked_in_one_does() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    validator.validate(json.loads(made().model_dump_json()))
    if REPORT.exists():
        validator.validate(json.loads(REPORT.read_text(encoding="utf-8")))


def test_aims_are_held_against_the_figures() -> None:
    found = {aim.name: aim for aim in made().aims}
    assert found["token error, mismatched classes"].met
    assert found["token error as a share of the class name's, mismatched classes"].met
    assert found["shift presence as a share of the class name's"].met
    # One matched class and two shifts: fewer than asked for, and too few for an order.
    assert found["matched classes whose token is no worse by more than 0.03"].met is False
    assert found["rank correlation of impacts"].met is None


def test_the_same_pieces_and_generator_make_the_same_report() -> None:
    assert made() == made()


def test_stretches_are_joined_side_by_side() -> None:
    both = joined([pieces(0), pieces(1)])
    assert both.seeds == [0, 1]
    assert both.truth.values.shape[2] == 2 * pieces().truth.values.shape[2]
    assert len({(one.source, one.class_name, one.shift, one.seed) for one in both.pictures}) == len(
        both.pictures
    )
    assert both.real_features["plate"].shape == (24, 4)
    assert both.seconds == {"zoo": 4.0}
    errors = made(both).confounding.mismatched
    assert errors.class_name_error.estimate == pytest.approx(0.2, abs=0.02)
    assert errors.class_name_error.n == 2 * 2 * 40


def test_stretches_of_other_layout_are_not_joined() -> None:
    other = Layout(LAYOUT.conditions, LAYOUT.classes, ("weak", "strong"))
    with pytest.raises(ValueError, match="cannot be joined"):
        joined([pieces(), replace(pieces(), layout=other)])
    with pytest.raises(ValueError, match="cannot be joined"):
        joined([])


def test_the_command_line_has_its_defaults() -> None:
    given = parsed([])
    assert given.seeds == "0"
    assert not given.development


def test_items_of_a_run_become_pictures() -> None:
    pair = {"p_true": 0.4, "top": []}
    result = {
        "image": "a" * 64,
        "source": "class-name",
        "shift": SNOW,
        "prompt": "a photo of a plate in the snow",
        "seed": 7,
        "object_similarity": 0.5,
        "shift_similarity": 0.3,
        "predictions": {"weak": {**pair, "rank_true": 2}, "strong": {**pair, "rank_true": 1}},
    }
    item = {
        "id": "i-1", "ordinal": 0, "kind": "picture", "source_id": "s", "source_image": "b" * 64,
        "label": "plate", "state": "done", "result": result,
    }  # fmt: skip
    rows = [
        PictureItem.model_validate(item),
        PictureItem.model_validate({**item, "result": {**result, "source": "retrieval", "seed": None}}),
        PictureItem.model_validate({**item, "result": None}),
    ]
    (found,) = pictures_of(rows, {"i-1": seen("plate", SNOW)})
    assert (found.source, found.class_name, found.shift, found.seed) == ("class-name", "plate", SNOW, 7)
    assert found.right == {"weak": False, "strong": True}
    assert (found.to_object, found.to_shift) == (0.5, 0.3)
    rows[0] = PictureItem.model_validate({**item, "result": {**result, "shift_similarity": None}})
    with pytest.raises(ValueError, match="no similarity"):
        pictures_of(rows[:1], {"i-1": seen("plate", SNOW)})
