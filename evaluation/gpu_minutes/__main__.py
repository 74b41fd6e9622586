"""Counts the operations of editing: ``python -m evaluation.gpu_minutes`` writes results/gpu-minutes.json."""

from __future__ import annotations

import sys

from evaluation.gpu_minutes.counting import count
from evaluation.gpu_minutes.counts import FILE
from evaluation.paths import ROOT

if __name__ == "__main__":
    FILE.write_text(count().model_dump_json(indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{FILE.relative_to(ROOT)}\n")
