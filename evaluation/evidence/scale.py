"""The page about large runs: the model's errors on this machine, then what it says of many GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from evaluation.evidence.markdown import page, table
from evaluation.scale.prediction import BUSY, COMMIT, DATABASE_CORES, ROUND_TRIP, STORE_BYTES
from evaluation.scale.report import WITHIN, Judged, Predicted, ScaleReport
from evaluation.scale.workloads import BESIDE_EDITOR, UTILISATION, UTILISATIONS

REGIMES = {
    "processor": "free services: the processor binds",
    "services": "a service of 0.5 s, two replicas a worker",
    "distance": "free services, the database 20 ms away",
}
BINDING = {
    "replicas": "GPUs",
    "row": "the run's row",
    "database": "database",
    "workers": "workers",
    "store": "store",
    "hands": "too few hands",
}
BELOW = 64
"""The GPUs up to which nothing but the GPUs should bind."""
HOURS = (
    "GPUs", "hours", "range", "GPU-hours", "dollars", "dollars an image", "published GPU-hours",
    "published dollars an image",
)  # fmt: skip
NEEDS = (
    "GPUs", "items/s", "busiest", "the run's row", "database", "a worker", "workers x hands",
    "database cores", "store", "before: items/s", "before: busiest",
)  # fmt: skip


def scale_page(report: ScaleReport) -> str:
    """Write the page; without a calibration that holds, nothing is said of more GPUs."""
    body = ["## Calibration", "", *table(*_calibration(report.judged)), ""]
    if report.holds:
        for name, rows in groupby(report.table, key=lambda row: row.workload):
            body += _workload(name, list(rows))
    return page("Large runs", finding(report), body, _how(report))


def finding(report: ScaleReport) -> str:
    """Say how far the model is off, and how much of the GPUs' time it expects to be used."""
    worst = max(report.judged, key=lambda each: abs(each.error))
    where = f"{worst.workers} workers, {REGIMES[worst.regime]}"
    if not report.holds:
        return (
            f"The model is off by {worst.error:+.0%} at worst ({where}), more than {WITHIN:.0%}: "
            "it says nothing of more GPUs."
        )
    told = f"The model is off by {worst.error:+.0%} at worst ({where}), where {WITHIN:.0%} were allowed"
    bound = [row for row in report.table if row.gpus <= BELOW and row.binds != "replicas"]
    if not report.table:
        return f"{told}."
    if bound:
        named = "; ".join(f"{BINDING[row.binds]} ({row.gpus} GPUs, {row.workload})" for row in bound)
        return f"{told}. Up to {BELOW} GPUs it names a bottleneck beside them: {named}."
    tight = [row for row in report.table if row.gpus <= BELOW and row.busy["row"] >= BUSY]
    also = "".join(f" The run's row is as busy with {row.gpus} GPUs ({row.workload})." for row in tight)
    return f"{told}. Up to {BELOW} GPUs the GPUs bind.{also}"


def _calibration(judged: Sequence[Judged]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    header = ("what binds", "workers", "predicted items/s", "measured items/s", "range", "n", "error")
    rows = [
        (
            REGIMES[each.regime],
            str(each.workers),
            f"{each.predicted:.1f}",
            f"{each.middle:.1f}",
            f"{min(each.measured):.1f} to {max(each.measured):.1f}",
            str(len(each.measured)),
            f"{each.error:+.1%}",
        )
        for each in judged
    ]
    return header, rows


def _workload(name: str, rows: Sequence[Predicted]) -> list[str]:
    first = rows[0]
    told = (
        f"{first.images:,} images on {first.gpu} at ${first.price:g} an hour (assumed). Published: "
        f"{first.published_by}, at ${first.published_price:g} an hour (assumed)."
    )
    hours, needs = table(HOURS, map(_hours, rows)), table(NEEDS, map(_needs, rows))
    return [f"## {name}", "", told, "", *hours, "", *needs, ""]


def _hours(row: Predicted) -> Sequence[str]:
    # Where the row binds, a GPU's rate says little, and more demand is combined better: no order then.
    found = (row.least_hours, row.hours, row.most_hours)
    return (
        f"{row.gpus}",
        f"{row.hours:,.1f}",
        f"{min(found):,.1f} to {max(found):,.1f}",
        f"{row.gpu_hours:,.0f}",
        f"{row.gpu_hours * row.price:,.0f}",
        f"{row.dollars_an_image:.4f}",
        f"{row.published_gpu_hours:,.0f}",
        f"{row.published_dollars_an_image:.4f}",
    )


def _needs(row: Predicted) -> Sequence[str]:
    busy = row.busy
    return (
        f"{row.gpus}",
        f"{row.items_per_second:,.0f}",
        _bound(row.binds, busy),
        f"{busy['row']:.0%}",
        f"{busy['database']:.0%}",
        f"{busy['workers']:.0%}",
        f"{row.workers} x {row.hands}",
        f"{row.database_cores:.1f}",
        f"{row.store_megabytes:,.0f} MB/s",
        f"{row.before_items_per_second:,.0f}",
        _bound(row.before_binds, row.before_busy),
    )


def _bound(name: str, busy: Mapping[str, float]) -> str:
    return f"{BINDING[name]} ({busy[name]:.0%})" if name in busy else BINDING[name]


def _how(report: ScaleReport) -> list[str]:
    low, high = UTILISATIONS
    return [
        "- `make scale` (`GPUS=64 PRICE=2.5 GPU=a100` for figures of your own; `CALIBRATE=1` measures",
        "  this machine first)",
        "",
        "Real workers on a real PostgreSQL, with services that cost nothing or sleep. The rates of the model",
        "come from development rounds; n other rounds judge it. The machine was busy with other work.",
        "[The design](../design/scale.md) has the model.",
        "",
        f"Nothing of the GPUs was measured. Operations are counted; a GPU reaches {UTILISATION:.0%} of its",
        f"maker's dense rate ({low:.0%} to {high:.0%}: the range of hours); all services beside the editor",
        f"take {BESIDE_EDITOR:.0%} of its time. Assumed of the cluster: a round trip to the database of",
        f"{1000 * ROUND_TRIP:g} ms, a commit of {1000 * COMMIT:g} ms, {DATABASE_CORES} cores for it,",
        f"{STORE_BYTES / 1e9:g} GB/s into the store, cores as fast as here. Items a second, shares and needs",
        f"are those at {high:.0%}, where the GPUs ask for most. Where the run's row binds, hours depend",
        "on how many transactions are combined rather than on the GPUs.",
        "",
        f"- Machine: {report.processor}, {report.cores} cores, load average {report.load:g} at the start;",
        "  the measured programs came before all others (nice -20)",
    ]
