"""`results/rehearsal.json`: one row a case, what was predicted beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from evaluation.benchmarks.report import Machine
from evaluation.paths import RESULTS

OUT = RESULTS / "rehearsal.json"


class Part(BaseModel):
    """A frozen part of the report that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Memory(Part):
    """Bytes of one replica.

    ``computed`` are the weights in memory, counted on the meta device; ``weights`` and ``allowance`` are what
    `counterpose-services check` predicts from the files; ``resident`` was in memory at most, ``own`` is the
    part of it that is not pages of files. ``gpu`` is what a GPU had in use at most; null on a CPU.
    """

    computed: int
    weights: int | None = None
    allowance: int | None = None
    resident: int | None = None
    own: int | None = None
    gpu: int | None = None

    @property
    def needed(self) -> int | None:
        """What the models took of their device."""
        return self.own if self.gpu is None else self.gpu

    @property
    def predicted(self) -> int | None:
        """What `check` predicts in all."""
        if self.weights is None or self.allowance is None:
            return None
        return self.weights + self.allowance


class Row(Part):
    """One case; what was not measured is null, and ``problem`` says why, or is null.

    ``evaluations`` are those of the UNet in the request, whose seconds include the autoencoder's.
    """

    case: str
    models: str
    device: str
    dtype: str
    threads: int
    stored_bytes: int
    memory: Memory
    steps: int | None = None
    write_seconds: float | None = None
    start_seconds: float | None = None
    request_seconds: float | None = None
    evaluations: int | None = None
    called_bytes: int | None = None
    disk_bytes: int | None = None
    problem: str | None = None

    @property
    def evaluation_seconds(self) -> float | None:
        """Seconds of the request for each evaluation of the UNet."""
        if not self.evaluations or self.request_seconds is None:
            return None
        return self.request_seconds / self.evaluations


class Rehearsal(Part):
    """The whole report."""

    machine: Machine
    memory_bytes: int
    rows: list[Row]


def read_report(file: Path = OUT) -> Rehearsal:
    """Read the report."""
    return Rehearsal.model_validate_json(file.read_bytes())


def write_row(row: Row, machine: Machine, memory_bytes: int, out: Path, order: Sequence[str]) -> None:
    """Write a row in the place that its case has in ``order``; earlier rows of other cases stay."""
    rows = read_report(out).rows if out.exists() else []
    kept = [one for one in rows if (one.case, one.device) != (row.case, row.device)]
    ordered = sorted([*kept, row], key=lambda one: (one.device, order.index(one.case)))
    report = Rehearsal(machine=machine, memory_bytes=memory_bytes, rows=ordered)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
