"""The page about editors: what is absent is said, and the published table stands as it was published."""

from __future__ import annotations

from typing import Any

from counterpose_core.types import Estimate
from evaluation.evidence.edits import edits_page
from evaluation.pie_bench.figures import EditFigures, differences, figures_of

ROWS: dict[str, list[dict[str, Any]]] = {
    "quick": [
        {
            "id": str(number),
            "type": "1",
            "psnr": 24.0 + number % 2,
            "mse": 0.004,
            "ssim": 0.86,
            "clip": 55.0,
            "target_psnr": 22.0,
            "kept": number % 2 == 0,
            "failed": None if number % 2 == 0 else "gate-direction",
            "success": True,
            "fidelity": True,
            "evaluations": 33.0,
            "cpu_seconds": 0.5,
        }
        for number in range(6)
    ],
    "transform:identity": [{"id": str(number), "type": "1", "mse": 0.0, "clip": 42.0} for number in range(6)],
}


def made() -> EditFigures:
    """Figures of two contestants."""
    return EditFigures(
        data={
            "pairs": {"1": 6},
            "missing": {"5": "change attribute pose: none"},
            "skipped_scenes": {"the change is not seen": 2},
            "split": "validation",
            "first": 7_000_000,
        },
        suite="miniature",
        absent={"lpips": "no perceptual distance was given"},
        contestants={name: figures_of(rows) for name, rows in ROWS.items()},
        reference="quick",
        differences={"transform:identity": differences(ROWS["transform:identity"], ROWS["quick"])},
    )


def test_every_figure_has_its_n_and_the_scale_of_the_published_table() -> None:
    page = edits_page(made())
    row = next(line for line in page.splitlines() if line.startswith("| `quick` | 6 |"))
    assert "24.5 (" in row
    assert "40.0 (" in row
    assert row.count("n=6") == 4
    assert "| 0.50 (0.12 to 0.88) | 6 | gate-direction 3 |" in page
    assert "| `transform:identity` | - | - | -13.0" in page


def test_what_is_absent_or_cannot_be_compared_is_said() -> None:
    page = edits_page(made())
    assert "lpips: no perceptual distance was given" in page
    assert "change attribute pose: none" in page
    assert "the change is not seen: 2" in page
    assert "cannot be compared row by row" in page


def test_published_figures_have_both_digits() -> None:
    page = edits_page(made())
    assert "| null-text | P2P | 13.44 | 27.03 | 60.67 | 35.86 | 84.11 | 24.75 | 21.86 |" in page
    assert "| direct | P2P | 11.65 | 27.22 | 54.55 | 32.86 | 84.76 | 25.02 | 22.10 |" in page


def test_a_missing_figure_is_a_dash() -> None:
    figures = made()
    figures.contestants["quick"].metrics["psnr"] = Estimate(estimate=None, low=None, high=None, n=0)
    assert "leaves the rest at - dB" in edits_page(figures)
