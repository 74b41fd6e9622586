"""What the page about GPUs multiplies is what the published networks take."""

from __future__ import annotations

from evaluation.gpu_minutes.counting import operations
from evaluation.gpu_minutes.counts import read_counts


def test_the_recorded_operations_are_those_of_the_published_networks() -> None:
    assert read_counts().operations["sd14"] == operations("sd14")
