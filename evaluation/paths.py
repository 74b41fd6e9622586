"""Where the evaluation reads and writes inside a clone of the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "evaluation/results"
"""One committed JSON file per measurement; `docs/evidence` is generated from them."""
STATE = ROOT / ".counterpose"
"""Finished pieces of long measurements, never committed."""
SUITE_WEIGHTS = ROOT / "services/counterpose_miniature/suite/weights"
"""The trained networks of the miniature suite."""
