"""Thresholds of a benchmark: images to inspect, recorded decisions, and the thresholds in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpose_core.contract.shift_benchmarks import ImageSource, ShiftBenchmarkConfig
from counterpose_core.contract.shift_thresholds import (
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)
from counterpose_gateway.methods.shift_benchmark.threshold_review import ShiftImages, decision_of, inspect
from counterpose_gateway.methods.shift_benchmark.thresholds import thresholds_in_force

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


def inspect_shift(run_id: str, shift: str, image_source: ImageSource | None, ledger: Ledger) -> Inspections:
    """Return the images to inspect before a shift's threshold is set.

    Args:
        run_id: The benchmark.
        shift: The shift by its name.
        image_source: The image source of the images to inspect; None means the benchmark's first.
        ledger: The ledger that holds the benchmark's items.

    Raises:
        NotFound: the run or the shift does not exist.
        InvalidRequest: the benchmark does not have this image source.
        DatasetEmpty: the shift has no image yet.
    """
    return inspect(_shift_images(run_id, shift, image_source, ledger))


def set_threshold(run_id: str, shift: str, body: ShiftThresholdSet, ledger: Ledger) -> ShiftThresholdDecision:
    """Record a reviewer's decision, and return the recorded form.

    Args:
        run_id: The benchmark.
        shift: The shift by its name.
        body: The decision.
        ledger: The ledger that holds the benchmark's items and records the decision.

    Raises:
        NotFound: the run or the shift does not exist.
        InvalidRequest, DatasetEmpty: the decision is not valid; see `threshold_review.decision_of`.
    """
    seen = _shift_images(run_id, shift, body.image_source, ledger)
    return ledger.decisions.add(run_id, decision_of(seen, body, ledger.now()))


def list_thresholds(run_id: str, ledger: Ledger) -> ShiftThresholds:
    """Return the thresholds in force and all recorded decisions.

    Raises:
        NotFound: the run does not exist.
    """
    config, decisions = _config(run_id, ledger), ledger.decisions.of_run(run_id)
    return ShiftThresholds(in_force=thresholds_in_force(config, decisions), decisions=decisions)


def _shift_images(run_id: str, shift: str, image_source: ImageSource | None, ledger: Ledger) -> ShiftImages:
    return ShiftImages.of(ledger.items.recorded(run_id), _config(run_id, ledger), shift, image_source)


def _config(run_id: str, ledger: Ledger) -> ShiftBenchmarkConfig:
    return ShiftBenchmarkConfig.model_validate(ledger.runs.get(run_id).resolved_config)
