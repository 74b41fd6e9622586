"""``results/scale.json``: measured rounds, the rates fitted to the first ones, and errors on the others."""

from __future__ import annotations

from typing import Literal

from evaluation.paths import RESULTS
from evaluation.scale.model import Affine, Rates, Transaction
from evaluation.validity.report import Part

SCALE = RESULTS / "scale.json"
Regime = Literal["processor", "services", "distance"]
"""What binds: the processor, with services that cost nothing; or services that take a fixed time;
or the round trips to a database that is far away."""
WITHIN = 0.15
"""How far a prediction may be from what is measured before anything is said of more GPUs."""


class Round(Part):
    """One measured round: so many workers in a regime; processor time in seconds an item.

    ``beside``: how many cores other programs used meanwhile.
    """

    regime: Regime
    workers: int
    hands: int
    replicas: int
    slow_seconds: float
    round_trip: float
    items_per_second: float
    worker: float
    database: float
    services: float
    calls: float
    slow_calls: float
    beside: float = 0.0


class Line(Part):
    """What a transaction takes by its groups."""

    fixed: float
    each: float


class Locked(Part):
    """A transaction that holds the run's row: seconds of worker and database, and statements."""

    worker: Line
    database: Line
    statements: Line


class Fitted(Part):
    """The rates of the model, from development rounds alone."""

    items: int
    lease: Locked
    record: Locked
    commit: float
    calls: int
    slow_calls: int
    call: float
    service: float
    interpreter: float

    def rates(self) -> Rates:
        """Return them as the model takes them."""
        return Rates(
            items=self.items, lease=_transaction(self.lease), record=_transaction(self.record),
            calls=self.calls, slow_calls=self.slow_calls, call=self.call, service=self.service,
            interpreter=self.interpreter,
        )  # fmt: skip


class Judged(Part):
    """One setting: what was predicted, and what was measured in rounds that the rates do not know."""

    regime: Regime
    workers: int
    predicted: float
    measured: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The mean of the measured rounds."""
        return sum(self.measured) / len(self.measured)

    @property
    def error(self) -> float:
        """By which share the prediction exceeds the mean of the rounds."""
        return self.predicted / self.middle - 1.0


class Predicted(Part):
    """One workload on so many GPUs, as the model has it.

    ``hours`` at the assumed utilisation, ``most_hours`` and ``least_hours`` at the ends of its range.
    ``busy``: the share of the time in which each resource is busy, at the upper end, where GPUs ask for most
    of the rest. ``before``: what it was there when each hand asked the ledger for itself.
    """

    workload: str
    gpu: str
    gpus: int
    price: float
    images: int
    hours: float
    least_hours: float
    most_hours: float
    items_per_second: float
    binds: str
    busy: dict[str, float]
    before_items_per_second: float
    before_binds: str
    before_busy: dict[str, float]
    workers: int
    hands: int
    database_cores: float
    store_megabytes: float
    published_gpu_hours: float
    published_price: float
    published_by: str

    @property
    def gpu_hours(self) -> float:
        """At the assumed utilisation."""
        return self.hours * self.gpus

    @property
    def dollars_an_image(self) -> float:
        """At the assumed price."""
        return self.gpu_hours * self.price / self.images

    @property
    def published_dollars_an_image(self) -> float:
        """What the papers' code takes on its GPU, at that GPU's assumed price."""
        return self.published_gpu_hours * self.published_price / self.images


class ScaleReport(Part):
    """`results/scale.json`."""

    processor: str
    cores: int
    load: float
    development: tuple[Round, ...]
    held_out: tuple[Round, ...]
    fitted: Fitted
    judged: tuple[Judged, ...]
    table: tuple[Predicted, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether each prediction is near enough."""
        return all(abs(each.error) <= WITHIN for each in self.judged)


def locked(transaction: Transaction) -> Locked:
    """Return a transaction as the report has it."""
    return Locked(
        worker=_line(transaction.worker), database=_line(transaction.database),
        statements=_line(transaction.statements),
    )  # fmt: skip


def _line(affine: Affine) -> Line:
    return Line(fixed=affine.fixed, each=affine.each)


def _transaction(kept: Locked) -> Transaction:
    return Transaction(_affine(kept.worker), _affine(kept.database), _affine(kept.statements))


def _affine(line: Line) -> Affine:
    return Affine(line.fixed, line.each)


def read_scale() -> ScaleReport:
    """Read the file."""
    return ScaleReport.model_validate_json(SCALE.read_bytes())
