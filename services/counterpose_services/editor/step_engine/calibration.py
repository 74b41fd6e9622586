"""How many rows a call should hold on this device, measured once and kept on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch
from pydantic import BaseModel, Field, ValidationError
from torch import Tensor

from counterpose_core.blobs import cache_key
from counterpose_core.editing.denoiser import Denoiser
from counterpose_services.batching.batch_size import DoesNotFit, within_memory
from counterpose_services.editor.step_engine.capacity import RowLimits

MOST_ROWS = 256
ENOUGH = 0.95
"""A call is large enough if it reaches this share of the best rate: larger ones only make others wait."""
LEAST_GAIN = 1.03
"""Twice the rows that are not at least so much faster end the search."""
TRIES = 2

_logger = logging.getLogger(__name__)


class Calibration(BaseModel, frozen=True, extra="forbid"):
    """The rows found for what ``key`` names: weights, precision, device, library and shapes."""

    key: str
    plain: int = Field(ge=1, le=MOST_ROWS)
    optimised: int = Field(ge=1, le=MOST_ROWS)


def rows_worth_packing(seconds: Callable[[int], float]) -> int:
    """Return the smallest power of two at which rows a second are about as many as they get.

    Args:
        seconds: evaluates so many rows and returns how long it took; raises DoesNotFit if it cannot.
    """
    rates: dict[int, float] = {}
    rows = 1
    while rows <= MOST_ROWS:
        try:
            rates[rows] = rows / min(seconds(rows) for _ in range(TRIES))
        except DoesNotFit:
            break
        if rows > 2 and rates[rows] < LEAST_GAIN * max(rates[rows // 2], rates[rows // 4]):
            break
        rows *= 2
    best = max(rates.values(), default=0.0)
    return min((rows for rows, rate in rates.items() if rate >= ENOUGH * best), default=1)


def measured(denoiser: Denoiser, latents: Tensor, text: Tensor, key: str) -> Calibration:
    """Measure calls of growing size with and without a gradient.

    Args:
        denoiser: the network.
        latents: latents of one row (1, C, H, W), which are repeated.
        text: text of one row (1, L, D).
        key: what the result is kept under.
    """
    time = torch.full((1,), 500, device=latents.device)

    def evaluate(rows: int, *, optimised: bool) -> None:
        with torch.set_grad_enabled(optimised):
            leaf = text.repeat(rows, 1, 1).requires_grad_(optimised)
            output = denoiser(latents.repeat(rows, 1, 1, 1), time.expand(rows), leaf)
            if optimised:
                torch.autograd.grad(output, leaf, output.detach())
        _wait(latents.device)

    def seconds(rows: int, *, optimised: bool) -> float:
        # The first call of a size allocates, and on a GPU chooses its kernels.
        within_memory(lambda: evaluate(rows, optimised=optimised))
        began = perf_counter()
        evaluate(rows, optimised=optimised)
        return perf_counter() - began

    return Calibration(
        key=key,
        plain=rows_worth_packing(lambda rows: seconds(rows, optimised=False)),
        optimised=rows_worth_packing(lambda rows: seconds(rows, optimised=True)),
    )


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def calibrated(
    folder: Path, least: RowLimits, measure: Callable[[str], Calibration], **named: object
) -> RowLimits:
    """Return the limits for this device: those kept in ``folder``, else measured and kept there.

    Args:
        folder: where calibrations lie; one that cannot be written costs the next start a measurement.
        least: the limits of the suite's batch, below which none goes.
        measure: measures under a key.
        named: whatever the result depends on.
    """
    key = cache_key(format=1, **named)
    file = folder / f"{key}.json"
    found = _kept(file, key)
    if found is None:
        found = measure(key)
        _keep(file, found)
    return RowLimits(max(least.plain, found.plain), max(least.optimised, found.optimised))


def _kept(file: Path, key: str) -> Calibration | None:
    try:
        found = Calibration.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        # Damaged, or not there: it is measured again.
        return None
    return found if found.key == key else None


def _keep(file: Path, found: Calibration) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(found.model_dump_json(), encoding="utf-8")
        part.replace(file)
    except OSError as error:
        _logger.warning("the calibration is not kept in %s: %s", file.parent, error)
