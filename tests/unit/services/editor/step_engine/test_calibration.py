"""Rows of a call: as many as make it faster, measured once for each device and set of weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from counterpose_services.batching.batch_size import DoesNotFit
from counterpose_services.editor.step_engine.calibration import (
    Calibration,
    calibrated,
    measured,
    rows_worth_packing,
)
from counterpose_services.editor.step_engine.capacity import RowLimits
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention

LEAST = RowLimits(plain=8, optimised=4)


@pytest.mark.parametrize(
    ("seconds", "rows"),
    [
        # A call of up to 16 rows takes the same time, then time grows with rows.
        (lambda rows: max(16, rows), 16),
        # Rows that cost the same however many there are need no company.
        (lambda rows: rows, 1),
        (lambda rows: 10.0, 256),
        (lambda rows: 8 + rows, 128),
    ],
)
def test_calls_grow_for_as_long_as_that_pays(seconds: object, rows: int) -> None:
    assert callable(seconds)
    assert rows_worth_packing(seconds) == rows


def test_calls_stay_below_what_fits_in_memory() -> None:
    def seconds(rows: int) -> float:
        if rows > 8:
            raise DoesNotFit
        return 1.0

    assert rows_worth_packing(seconds) == 8


def test_a_calibration_is_measured_once_and_again_for_another_device(tmp_path: Path) -> None:
    keys = list[str]()

    def measure(key: str) -> Calibration:
        keys.append(key)
        return Calibration(key=key, plain=64, optimised=2)

    for device in ("one card", "one card", "another card"):
        assert calibrated(tmp_path, LEAST, measure, device=device) == RowLimits(plain=64, optimised=4)
    assert len(keys) == 2


@pytest.mark.parametrize("damage", ["", "{}", '{"key": "other", "plain": 4, "optimised": 4}', "\x00"])
def test_a_damaged_or_foreign_file_is_measured_again(tmp_path: Path, damage: str) -> None:
    def measure(key: str) -> Calibration:
        return Calibration(key=key, plain=32, optimised=16)

    calibrated(tmp_path, LEAST, measure, device="card")
    (file,) = tmp_path.iterdir()
    file.write_text(damage, encoding="utf-8")
    assert calibrated(tmp_path, LEAST, measure, device="card") == RowLimits(plain=32, optimised=16)
    assert Calibration.model_validate_json(file.read_bytes()).plain == 32


def test_a_folder_that_cannot_be_written_costs_only_the_next_measurement(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder", encoding="utf-8")
    found = calibrated(blocked, LEAST, lambda key: Calibration(key=key, plain=16, optimised=8), device="card")
    assert found == RowLimits(plain=16, optimised=8)


def test_a_network_is_measured_with_and_without_a_gradient() -> None:
    found = measured(
        TinyAttention(dtype=torch.float32), torch.zeros(1, 2, 4, 4), torch.zeros(1, LENGTH, WIDTH), "key"
    )
    assert found.key == "key"
    assert found.plain > 1
