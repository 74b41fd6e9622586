"""Hours and dollars of large runs: what is counted, and that they follow from GPUs where these bind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluation.scale import prediction
from evaluation.scale.calibration import judge
from evaluation.scale.prediction import table
from evaluation.scale.report import Fitted, Line, Locked, Round
from evaluation.scale.workloads import GPUS, UTILISATION, workloads

QUICK = Line(fixed=0.0001, each=0.0001)
FITTED = Fitted(
    items=8, lease=Locked(worker=QUICK, database=QUICK, statements=Line(fixed=5.0, each=2.0)),
    record=Locked(worker=QUICK, database=QUICK, statements=Line(fixed=8.0, each=0.0)), commit=0.001, calls=11,
    slow_calls=2, call=0.003, service=0.001, interpreter=1.1,
)  # fmt: skip


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "GROUPS", 120)


def test_an_image_costs_the_operations_that_were_counted() -> None:
    star, paper, quick = workloads()
    # 100 evaluations of 2.15 TFLOP an image of ImageNet*.
    assert star.half / star.items / 1e12 == pytest.approx(214.9, rel=0.01)
    # 2,450 evaluations forward and 500 backward for six edits, as in the table of the GPU page.
    assert paper.half / 1e12 == pytest.approx(2450 * 0.8033 + 500 * 0.8659, rel=0.001)
    assert quick.half < paper.half / 4


def test_hours_halve_with_twice_the_gpus_where_these_bind_and_dollars_stay() -> None:
    star = workloads()[0]
    eight, sixteen = table(FITTED, [star], GPUS["h100"], (8, 16))
    assert {eight.binds, sixteen.binds} == {"replicas"}
    alone = star.groups * star.seconds(GPUS["h100"], UTILISATION) / 8 / 3600
    assert eight.hours == pytest.approx(alone, rel=0.1)
    assert sixteen.hours == pytest.approx(eight.hours / 2, rel=0.1)
    assert eight.least_hours < eight.hours < eight.most_hours
    dearer = next(table(FITTED, [star], replace(GPUS["h100"], price=5.0), (8,)))
    assert dearer.dollars_an_image == pytest.approx(2 * eight.dollars_an_image)


def test_a_setting_is_judged_by_the_mean_of_its_rounds() -> None:
    setting = Round(
        regime="services", workers=2, hands=4, replicas=4, slow_seconds=0.5, round_trip=0.0,
        items_per_second=30.0, worker=0.0, database=0.0, services=0.0, calls=11.0, slow_calls=2.0,
    )  # fmt: skip
    [judged] = judge(FITTED, [setting, setting.model_copy(update={"items_per_second": 34.0})])
    # Four replicas, two calls of half a second a group of eight items.
    assert judged.predicted == pytest.approx(32.0, rel=0.03)
    assert judged.error == pytest.approx(0.0, abs=0.03)
