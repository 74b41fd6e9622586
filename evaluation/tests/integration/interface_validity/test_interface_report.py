"""The report on dataset interfaces: from synthetic inputs to a file that satisfies its schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import httpx
import jsonschema
import numpy as np
import pytest

from counterpose import Client, ShiftBenchmark
from counterpose_core.contract.runs import RunList
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.shift_benchmarks import ImageItem
from counterpose_core.contract.shift_thresholds import ThresholdInForce
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.types import Cost, Estimate
from evaluation.interface_validity.assembly import Pieces, report
from evaluation.interface_validity.fine_grained_images import FineGrained
from evaluation.interface_validity.images import Layout
from evaluation.interface_validity.joining import joined
from evaluation.interface_validity.report import BatchingFigures, InterfaceValidity
from evaluation.interface_validity.run_items import checked, images_of
from evaluation.interface_validity.runs import finished
from evaluation.interface_validity.validate import order_of, parsed
from evaluation.paths import RESULTS
from evaluation.tests.fakes.fine_grained import fine_image
from evaluation.tests.fakes.interfaces import LAYOUT, NIGHT, SNOW, answers, images, seen
from fakes.benchmark_answers import (
    a_benchmark_run,
    a_benchmark_summary,
    a_shift,
    an_image_source,
    benchmark_answer,
    counts,
)
from fakes.sdk import Script, ok

SCHEMA = RESULTS / "interface-validity.schema.json"
REPORT = RESULTS / "interface-validity.json"


def accuracy(shift: str, name: str, model: int) -> float:
    return {BASE: 0.8, SNOW: 0.7, NIGHT: 0.4}[shift] - 0.1 * model


def pieces(number: int = 0) -> Pieces:
    def by_name(shift: str, name: str, model: int) -> float:
        return accuracy(shift, name, model) - (0.2 if name == "plate" else 0.0)

    features = {name: np.random.default_rng(0).normal(size=(12, 4)) for name in LAYOUT.classes}
    worth = Estimate(estimate=3.0, low=2.8, high=3.2, n=3)
    none = Estimate(estimate=0.0, low=0.0, high=0.0, n=6)
    return Pieces(
        seeds=[number],
        layout=LAYOUT,
        truth=answers(accuracy),
        images=[*images("token", accuracy), *images("class-name", by_name)],
        real_features=features,
        base_features={"token": features, "class-name": features},
        tokens=[("all", Cost(unet_evaluations=10, seconds=1.0))] * 2,
        batching=BatchingFigures(
            tokens=worth, tokens_by_preset=worth, tokens_difference=none, generation=worth
        ),
        seconds={"zoo": 2.0},
    )


def made(given: Pieces | None = None) -> InterfaceValidity:
    return report(given or pieces(), np.random.default_rng(0))


def test_the_checked_in_schema_matches_the_report_model() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == InterfaceValidity.model_json_schema(
        mode="serialization"
    )


def test_new_and_checked_in_reports_satisfy_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    validator.validate(json.loads(made().model_dump_json()))
    if REPORT.exists():
        validator.validate(json.loads(REPORT.read_text(encoding="utf-8")))


def test_aims_are_compared_with_the_figures() -> None:
    found = {aim.name: aim for aim in made().aims}
    assert found["token error, mismatched classes"].met
    assert found["token error as a share of the class name's, mismatched classes"].met
    assert found["shift presence as a share of the class name's"].met
    # One matched class and two shifts: fewer than required, and too few for a rank correlation.
    assert found["matched classes whose token is no worse by more than 0.03"].met is False
    assert found["rank correlation of impacts"].met is None
    assert found["eight classes in one batch, times as fast as one by one"].met
    assert found["vectors learned together and alone, largest difference in float64"].met
    assert found["16 images in one batch, times as fast as one at a time"].met


def test_equal_inputs_make_equal_reports() -> None:
    assert made() == made()


def test_the_fine_grained_benchmark_changes_no_other_figure() -> None:
    codes = FineGrained([fine_image(seed=seed) for seed in range(6)], {"f101": [1.0]})
    fine = made(joined([replace(pieces(), fine_grained=codes), pieces(1)]))
    plain = made(joined([pieces(), pieces(1)]))
    assert plain.fine_grained is None
    assert fine.fine_grained is not None
    assert fine.fine_grained.token.code.estimate == 1.0
    assert fine.model_copy(update={"fine_grained": None}) == plain
    jsonschema.validate(json.loads(fine.model_dump_json()), json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_seed_ranges_are_joined() -> None:
    both = joined([pieces(0), pieces(1)])
    assert both.seeds == [0, 1]
    assert both.truth.values.shape[2] == 2 * pieces().truth.values.shape[2]
    assert len({(one.image_source, one.class_name, one.shift, one.seed) for one in both.images}) == len(
        both.images
    )
    assert both.real_features["plate"].shape == (24, 4)
    assert both.seconds == {"zoo": 4.0}
    errors = made(both).confounding.mismatched
    assert errors.class_name_error.estimate == pytest.approx(0.2, abs=0.02)
    assert errors.class_name_error.n == 2 * 2 * 40


def test_seed_ranges_of_different_layouts_are_not_joined() -> None:
    other = Layout(LAYOUT.conditions, LAYOUT.classes, ("weak", "strong"))
    with pytest.raises(ValueError, match="cannot be joined"):
        joined([pieces(), replace(pieces(), layout=other)])
    with pytest.raises(ValueError, match="cannot be joined"):
        joined([])


def test_the_command_line_has_its_defaults() -> None:
    given = parsed([])
    assert given.seeds == "0"
    assert not given.development


def test_command_line_options_determine_the_order(tmp_path: Path) -> None:
    order = order_of(parsed(["--shifts", "2", "--state", str(tmp_path), "--smoke", "--development"]), 3)
    assert order.layout.conditions == (BASE, "in the snow", "on the water")
    assert order.layout.models == tuple(order.specs)
    assert order.models == tmp_path / "zoo-3-smoke"
    assert order.stack == tmp_path / "development-3" / "stack"
    assert order.steps == 2
    real = order_of(parsed([]), 0)
    assert (real.steps, real.models.name, len(real.shifts)) == (None, "zoo-0", 11)


def test_a_started_run_is_followed_and_not_started_again(tmp_path: Path) -> None:
    listed = RunList(runs=[a_benchmark_run("completed", done=3)])
    none, some = (ok(each.model_dump_json()) for each in (RunList(runs=[]), listed))
    script = Script(none, some, benchmark_answer("completed", done=3))
    http = httpx.Client(transport=httpx.MockTransport(script), base_url="http://gateway.test")
    client, path = Client(http=http), tmp_path / "of-an-interface" / "benchmark.json"
    path.parent.mkdir()
    path.write_text('"run-1"', encoding="utf-8")

    def begin() -> ShiftBenchmark:
        raise AssertionError("it was begun before")

    assert finished(client, path, client.shift_benchmarks, begin).ended


def result() -> dict[str, object]:
    """An image of a plate in the snow."""
    pair = {"score": 0.4, "shown": []}
    return {
        "image": "a" * 64,
        "image_source": "class-name",
        "shift": SNOW,
        "prompt": "a photo of a plate in the snow",
        "seed": 7,
        "object_similarity": 0.5,
        "shift_similarity": 0.3,
        "predictions": {"weak": {**pair, "hits": [False, True]}, "strong": {**pair, "hits": [True, True]}},
    }


def image_item(**changes: object) -> ImageItem:
    """The item with this image as its result, with the given values instead."""
    return ImageItem.model_validate(
        {
            "id": "i-1", "ordinal": 0, "kind": "image", "item_group": "s", "source_image": "b" * 64,
            "label": "plate", "state": "done", "result": result() | changes,
        }
    )  # fmt: skip


def summary(threshold: ThresholdInForce | None = None, kept: int = 9) -> ShiftBenchmarkSummary:
    """Figures of both image sources; only images of class names in the snow are kept, this many."""
    known = {} if threshold is None else {"threshold": threshold}
    base = an_image_source().base.model_copy(update={"counts": counts(0, no_object=1)})
    none = an_image_source(base=base, shifts={SNOW: a_shift(SNOW, None, counts=counts(0, no_object=1))})
    some = a_shift(SNOW, None, counts=counts(kept), **known)
    return a_benchmark_summary(
        image_sources={"token": none, "class-name": none.model_copy(update={"shifts": {SNOW: some}})}
    )


def test_run_items_become_images() -> None:
    rows = [
        image_item(),
        image_item(image_source="retrieval", seed=None),
        image_item().model_copy(update={"result": None}),
    ]
    told = summary()
    (found,) = images_of(rows, {"i-1": seen("plate", SNOW)}, told)
    assert (found.image_source, found.class_name, found.shift, found.seed) == ("class-name", "plate", SNOW, 7)
    assert found.right == {"weak": False, "strong": True}
    assert (found.to_object, found.has_object, found.has_shift, found.group) == (0.5, True, True, "s")
    with pytest.raises(ValueError, match="class-name, 'in the snow': 1 kept here, 9 by gateway"):
        checked([found], told)
    with pytest.raises(ValueError, match="no similarity"):
        images_of([image_item(shift_similarity=None)], {"i-1": seen("plate", SNOW)}, told)


@pytest.mark.parametrize(
    ("threshold", "passes"),
    [
        (ThresholdInForce(threshold=0.3, set_by="suite"), True),
        (ThresholdInForce(threshold=0.31, set_by="suite"), False),
        (ThresholdInForce(), True),
        (ThresholdInForce(set_by="person", nothing_passes=True), False),
    ],
)
def test_an_image_s_shift_is_judged_by_the_current_threshold(
    threshold: ThresholdInForce, passes: bool
) -> None:
    (found,) = images_of([image_item()], {"i-1": seen("plate", SNOW)}, summary(threshold))
    assert found.has_shift is passes


def test_images_with_the_gateway_s_verdicts_are_accepted() -> None:
    told = summary(kept=1)
    found = images_of([image_item()], {"i-1": seen("plate", SNOW)}, told)
    assert checked(found, told) == found
