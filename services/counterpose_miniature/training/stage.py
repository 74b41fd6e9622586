"""The common parts of training stages: folders, checkpoints, logs and the mark of completion."""

from __future__ import annotations

import io
import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import torch

_DONE = "done.json"
_CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class StageContext:
    """Where and how a stage trains: `out` is for finished weights, `work` for checkpoints, data and logs."""

    out: Path
    work: Path
    smoke: bool = False
    seed: int = 0
    threads: int = 2

    def folder(self, stage: str) -> Path:
        """Return the stage's own folder under `work`; create it if missing."""
        path = self.work / stage
        path.mkdir(parents=True, exist_ok=True)
        return path

    def generator(self, offset: int = 0) -> torch.Generator:
        """Return a new CPU generator by the run's seed; distinct offsets give distinct streams."""
        # Neighbouring seeds are a million offsets apart, so their steps never share batches.
        return torch.Generator().manual_seed(self.seed * 1_000_003 + offset)


Training = Callable[[StageContext, logging.Logger], Mapping[str, Any]]


def figures_of(context: StageContext, stage: str) -> dict[str, Any] | None:
    """Return the quality figures of a finished stage; None if it is unfinished."""
    path = context.work / stage / _DONE
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def finish(context: StageContext, stage: str, figures: Mapping[str, Any]) -> None:
    """Mark a stage as finished with its quality figures."""
    write_atomically(context.folder(stage) / _DONE, json.dumps(dict(figures), indent=2).encode())


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is never incomplete, even after a kill."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        # If it were renamed before the bytes are on disk, the file could be empty after a crash.
        os.fsync(file.fileno())
    part.replace(path)


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array atomically in NumPy's format."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    write_atomically(path, buffer.getvalue())


def use_threads(threads: int) -> None:
    """Set the number of torch's threads; each stage calls this once before it computes."""
    torch.set_num_threads(threads)


class Checkpoint:
    """One file with a stage's training state (tensors and plain values), replaced atomically.

    It is saved at most every `seconds` and loaded without pickle's code execution.
    """

    def __init__(self, folder: Path, name: str = _CHECKPOINT, *, seconds: float = 120.0) -> None:
        self.path = folder / name
        self._seconds = seconds
        self._saved_at = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """Return the last saved state; None if there is none."""
        if not self.path.exists():
            return None
        # A pickle could run code, but a checkpoint needs only tensors and plain values.
        state: dict[str, Any] = torch.load(self.path, weights_only=True)
        return state

    def due(self) -> bool:
        """Return True if the interval since the last save has passed."""
        return time.monotonic() - self._saved_at >= self._seconds

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the file by `state`."""
        part = self.path.with_name(f"{self.path.name}.part")
        torch.save(dict(state), part)
        part.replace(self.path)
        self._saved_at = time.monotonic()


def checkpoint_of(context: StageContext, stage: str) -> Checkpoint:
    """Return the stage's checkpoint: every two minutes, in a rehearsal after every step."""
    return Checkpoint(context.folder(stage), seconds=0.0 if context.smoke else 120.0)


@contextmanager
def stage_log(context: StageContext, stage: str) -> Iterator[logging.Logger]:
    """Yield a logger that appends to work/<stage>/log.txt."""
    logger = logging.getLogger(f"counterpose_miniature.training.{stage}")
    logger.setLevel(logging.INFO)
    handler = logging.FileHandler(context.folder(stage) / "log.txt")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        logger.removeHandler(handler)
        handler.close()


def training_stage(name: str) -> Callable[[Training], Callable[[StageContext], None]]:
    """Make a stage of a function that trains, saves and returns the quality figures.

    The stage does nothing if it is finished, sets the number of threads, logs to work/<name>/log.txt, and is
    finished once the function has returned.
    """

    def of(training: Training) -> Callable[[StageContext], None]:
        @wraps(training)
        def train(context: StageContext) -> None:
            if figures_of(context, name) is not None:
                return
            use_threads(context.threads)
            with stage_log(context, name) as log:
                figures = training(context, log)
            finish(context, name, figures)

        return train

    return of


def learning_rate(step: int, steps: int, peak: float, *, warm_up: int, hold: float = 0.0) -> float:
    """Return the rate at `step`: linear warm-up, `peak` until the fraction `hold`, then a cosine to 2 %."""
    if step < warm_up:
        return peak * (step + 1) / warm_up
    start = max(warm_up, int(hold * steps))
    progress = min(max(step - start, 0) / max(steps - start, 1), 1.0)
    return peak * (0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * progress)))
