"""Ticks of the reports' scatter plots: each label matches its position."""

from __future__ import annotations

import pytest

from counterpose_gateway.reports.plots import Axis

AXES = {
    "round": (Axis("slope", 0.0, 4.0), ["0", "1", "2", "3", "4"]),
    "halves": (Axis("slope", 0.4, 2.1), ["0.5", "1.0", "1.5", "2.0"]),
    "narrow": (Axis("slope", 0.97, 1.05), ["1.00", "1.05"]),
    "below zero": (Axis("impact", -0.11, 0.25, in_percent=True), ["−10 %", "0 %", "10 %", "20 %"]),
    "narrow shares": (
        Axis("impact", 0.0, 0.02, in_percent=True), ["0.0 %", "0.5 %", "1.0 %", "1.5 %", "2.0 %"]
    ),
    "its own": (Axis("accuracy", 0.0, 1.0, in_percent=True, ticks=(0.01, 0.5, 2.0)), ["1 %", "50 %"]),
}  # fmt: skip


@pytest.mark.parametrize("name", AXES)
def test_tick_labels_have_enough_digits(name: str) -> None:
    axis, texts = AXES[name]
    _, ticks = axis.placed(0.0, 100.0)
    assert [text for _, text in ticks] == texts


def test_ticks_are_placed_at_their_values() -> None:
    _, ticks = Axis("slope", 0.0, 4.0).placed(100.0, 0.0)
    assert [at for at, _ in ticks] == [100.0, 75.0, 50.0, 25.0, 0.0]
