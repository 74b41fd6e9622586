"""The page about large runs: what it says of a model that holds, and of one that does not."""

from __future__ import annotations

from evaluation.evidence.scale import finding, scale_page
from evaluation.scale.report import Fitted, Judged, Line, Locked, Predicted, ScaleReport

LINE = Line(fixed=0.001, each=0.001)
LOCKED = Locked(worker=LINE, database=LINE, statements=Line(fixed=5.0, each=2.0))
FITTED = Fitted(
    items=8, lease=LOCKED, record=LOCKED, commit=0.001, calls=11, slow_calls=2, call=0.003, service=0.001,
    interpreter=1.1,
)  # fmt: skip
NEAR = Judged(regime="processor", workers=2, predicted=110.0, measured=(99.0, 101.0))
FAR = NEAR.model_copy(update={"predicted": 130.0})
ROW = Predicted(
    workload="a benchmark", gpu="a GPU", gpus=64, price=2.0, images=1_000, hours=5.0, least_hours=4.0,
    most_hours=7.0, items_per_second=70.0, binds="replicas",
    busy={"row": 0.2, "replicas": 1.0, "database": 0.1, "workers": 0.5, "store": 0.1},
    before_items_per_second=50.0, before_binds="row", before_busy={"row": 0.99, "replicas": 0.7}, workers=2,
    hands=64, database_cores=1.5, store_megabytes=10.0, published_gpu_hours=900.0, published_price=0.5,
    published_by="its code",
)  # fmt: skip


def a_report(judged: Judged, *rows: Predicted) -> ScaleReport:
    """A report with one judged setting."""
    return ScaleReport(
        processor="p", cores=2, load=0.5, development=(), held_out=(), fitted=FITTED, judged=(judged,),
        table=rows,
    )  # fmt: skip


def test_a_model_that_is_far_off_says_nothing_of_more_gpus() -> None:
    report = a_report(FAR, ROW)
    assert "+30% at worst" in finding(report)
    assert "says nothing of more GPUs" in finding(report)
    assert "GPU-hours" not in scale_page(report)


def test_dollars_follow_from_hours_and_price() -> None:
    text = scale_page(a_report(NEAR, ROW))
    assert "+10% at worst" in text
    assert "the GPUs bind" in text
    assert "| 64 | 5.0 | 4.0 to 7.0 | 320 | 640 | 0.6400 | 900 | 0.4500 |" in text


def test_a_bottleneck_below_64_gpus_is_named() -> None:
    assert "the run's row (64 GPUs, a benchmark)" in finding(
        a_report(NEAR, ROW.model_copy(update={"binds": "row"}))
    )
