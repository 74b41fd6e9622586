"""What was counted, as ``results/gpu-minutes.json`` has it; read without a model library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from evaluation.paths import RESULTS

FILE = RESULTS / "gpu-minutes.json"
Model = Literal["sd14", "sd21", "sdxl"]
"""A published architecture, as `evaluation.benchmarks.device` calls them."""
PRESETS: tuple[tuple[str, str, Model], ...] = (
    ("lance", "lance", "sd14"),
    ("lance", "quick", "sd14"),
    ("dataset-interfaces", "dataset-interfaces", "sd21"),
    ("sdxl", "direct", "sdxl"),
)
"""Suite, preset and architecture of each row."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Work(_Row):
    """Samples through the UNet forward and backward, and images through the autoencoder."""

    forward: float
    backward: float
    autoencoder: float


class Counted(_Row):
    """What one image and one edit of it take with a suite's preset."""

    suite: str
    preset: str
    model: Model
    image: Work
    edit: Work


class Operations(_Row):
    """Operations of a published architecture for one sample or image; a multiply-add counts as two."""

    forward: int
    backward: int
    encode: int
    decode: int


class Counts(_Row):
    """``results/gpu-minutes.json``."""

    counted: list[Counted]
    operations: Mapping[Model, Operations]


def read_counts() -> Counts:
    """Read the file."""
    return Counts.model_validate_json(FILE.read_bytes())
