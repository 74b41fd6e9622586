"""What rows come to."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.pie_bench.figures import differences, figures_of


def row(number: int, **values: Any) -> dict[str, Any]:
    """A pair's row."""
    return {"id": str(number), "type": "1", **values}


def test_a_figure_is_a_mean_over_the_pairs_that_have_it() -> None:
    rows = [row(n, psnr=20.0 + n, ssim=None, kept=n < 3, cpu_seconds=1.0) for n in range(4)]
    found = figures_of([*rows, row(4, psnr=None, kept=True, cpu_seconds=3.0), row(5, problem="policy")])
    assert found.metrics["psnr"].estimate == pytest.approx(21.5)
    assert (found.metrics["psnr"].n, found.pairs) == (4, 6)
    assert "ssim" not in found.metrics
    assert (found.shares["kept"].estimate, found.shares["kept"].n) == (0.8, 5)
    assert found.refused == {"policy": 1}
    assert found.costs == {"cpu_seconds": pytest.approx(1.4)}


def test_a_difference_is_of_the_pairs_that_both_have() -> None:
    ours = [row(n, psnr=22.0) for n in range(3)]
    theirs = [row(n, psnr=20.0) for n in range(1, 9)] + [row(0, psnr=None)]
    found = differences(ours, theirs)
    assert (found["psnr"].estimate, found["psnr"].n) == (2.0, 2)
    assert "ssim" not in found
