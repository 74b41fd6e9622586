"""A run that a much older version recorded: its report is written, or refused in a clear sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from counterpose_core.contract.base import RequestBody
from counterpose_core.contract.runs import Item, Run
from counterpose_core.contract.shift_benchmarks import ImageItem
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.errors import ArtifactCorrupt
from counterpose_gateway.methods.dataset_interface.report import render as render_interface
from counterpose_gateway.methods.dataset_interface.summary import summarize as sum_up_interface
from counterpose_gateway.methods.shift_benchmark.columns import columns_of
from counterpose_gateway.methods.shift_benchmark.report.report import render as render_benchmark
from counterpose_gateway.methods.shift_benchmark.summary import summarize as sum_up_benchmark
from counterpose_gateway.methods.stress_test.report.report import render as render_stress_test
from counterpose_gateway.methods.stress_test.summary.summary import summarize as sum_up_stress_test
from fakes.interface_answers import a_config, an_interface_run
from fakes.pages import text_of
from fakes.recorder import recorded_run
from fakes.reported_benchmarks import read_image, reported_benchmark
from fakes.results import Ledgered, fake_config

ALWAYS = {"predictions", "original_predictions", "state", "image_source", "shift_similarity"}
"""Fields with a default that every version wrote, as a run has no figure without them."""


def old(value: Any) -> Any:
    """A document of a model without any field that has a default, as from before those fields existed."""
    if isinstance(value, RequestBody):
        # What the user asked for was always recorded.
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        kept = [name for name, field in fields.items() if field.is_required() or name in ALWAYS]
        return {name: old(getattr(value, name)) for name in kept}
    if isinstance(value, dict):
        return {name: old(each) for name, each in value.items()}
    return [old(each) for each in value] if isinstance(value, list | tuple) else value


def old_items(items: Sequence[Item] | Sequence[ImageItem]) -> list[Any]:
    """Items whose results lack the same."""
    return [
        item.model_copy(update={"result": type(item.result).model_validate(old(item.result))})
        for item in items
        if item.result is not None
    ]


def with_config(run: Run, config: BaseModel) -> Run:
    return run.model_copy(update={"resolved_config": old(config)})


def shaken() -> Ledgered:
    ledgered = Ledgered()
    after = {"steady": 0.9, "leaning": 0.2}
    ledgered.stress([f"source-{index}" for index in range(8)], {"background": after})
    return ledgered


def stress_test(run: Run | None = None) -> str:
    ledgered = Ledgered()
    ledgered.stress(
        [f"source-{index}" for index in range(8)], {"background": {"steady": 0.9, "leaning": 0.2}}
    )
    run = run or with_config(recorded_run(fake_config(), ledgered.items), fake_config())
    items = old_items(ledgered.items)
    return render_stress_test(sum_up_stress_test(run, items), run, items, ledgered.world.store.get)


def benchmark(run: Run | None = None) -> str:
    made = reported_benchmark()
    run = run or with_config(made.run, made.config)
    items = old_items(made.items)
    return render_benchmark(sum_up_benchmark(run, columns_of(items, made.config)), run, items, read_image)


def interface(run: Run | None = None) -> str:
    run = run or with_config(an_interface_run("cancelled"), a_config())
    return render_interface(sum_up_interface(run, []), run, [], read_image)


REPORTS = (stress_test, benchmark, interface)
every_report = pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.__name__)


@every_report
def test_an_old_run_has_a_report(report: Callable[[], str]) -> None:
    text = text_of(report())
    assert "Counterpose" in text
    if report is stress_test:
        assert "1 of 2 models breaks when one thing in the image changes." in text
    if report is benchmark:
        assert "Suspected: “in the snow” costs" in text


@every_report
def test_a_run_that_cannot_be_read_names_what_it_lacks_and_its_version(
    report: Callable[[Run], str],
) -> None:
    run = an_interface_run("cancelled").model_copy(
        update={"resolved_config": {"versions": {"counterpose": "0.0.1"}, "suite": "fake"}}
    )
    with pytest.raises(ArtifactCorrupt, match=r"of run 'run-1', recorded by version 0\.0\.1: .*request"):
        report(run)
    bare = run.model_copy(update={"resolved_config": {}})
    with pytest.raises(ArtifactCorrupt, match=r"recorded by an unknown version: .*make it again"):
        report(bare)


def test_the_summary_of_an_old_version_is_read_with_what_it_lacks_left_out() -> None:
    ledgered = Ledgered()
    ledgered.stress(
        [f"source-{index}" for index in range(8)], {"background": {"steady": 0.9, "leaning": 0.2}}
    )
    run = recorded_run(fake_config(), ledgered.items)
    summary = sum_up_stress_test(run, ledgered.items)
    # What every version told, and a field of a later one.
    told = {**old(summary), "yield": {}, "a_later_field": 1}
    read = StressTestSummary.model_validate(told)
    assert (read.run_id, read.findings, read.verdicts) == (summary.run_id, [], [])
    page = render_stress_test(read, run, ledgered.items, ledgered.world.store.get)
    assert summary.verdict.splitlines()[0] in text_of(page)
