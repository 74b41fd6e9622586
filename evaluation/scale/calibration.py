"""Rounds of real workers on this machine: some to fit the model's rates to, others to judge it by."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import select
from tqdm import tqdm

from counterpose_core.contract.runs import ItemResult
from counterpose_gateway.ledger.tables import schema
from evaluation.load.fleet import A_SOURCE, TICKS, Fleet, Used, fleet
from evaluation.scale.model import Plant, simulate
from evaluation.scale.report import Fitted, Judged, Regime, Round, ScaleReport, locked
from evaluation.scale.transactions import Transactions, transactions

WORKERS = (1, 2, 4)
HANDS: Mapping[Regime, int] = {"processor": 8, "services": 4, "distance": 8}
SLOW_SECONDS: Mapping[Regime, float] = {"processor": 0.0, "services": 0.5, "distance": 0.0}
ROUND_TRIPS: Mapping[Regime, float] = {"processor": 0.0, "services": 0.0, "distance": 0.02}
"""As between continents, so that the row of the run binds on two cores, too."""
REPLICAS_A_WORKER = 2
"""With four hands a worker, one call runs on each replica and one waits, as the product has it."""
FREE = 1_000
"""Replicas where calls take no time."""
WINDOW_SECONDS = 10.0
WARM_ITEMS = 40
PATIENCE_SECONDS = 120.0
MOST_SOURCES_FAR = 620
BESIDE = 0.1
"""The share of a core that ten programs get beside one that comes before them: the system weighs it 87 times
as much as each. What others used beyond that, they used of cores that were idle."""
ROUNDS = 3
MOST_INTERPRETER, HALVINGS = 2.0, 8


def calibrate(rounds: int = ROUNDS, seconds: float = WINDOW_SECONDS) -> ScaleReport:
    """Measure rounds, fit the rates to some of them, and judge the model by the others."""
    load = round(os.getloadavg()[0], 2)
    development, held_out, kinds = list[Round](), list[Round](), list[Transactions]()
    regimes: tuple[Regime, ...] = ("processor", "services", "distance")
    for _ in tqdm(range(rounds), desc="rounds"):
        # In turn, so that another program's load meets development and judgement alike.
        for regime in regimes:
            if regime != "distance":
                measured, taken = measure(regime, 1, seconds, alone=True)
                development.append(measured)
                kinds += taken
            held_out += [measure(regime, workers, seconds)[0] for workers in WORKERS]
        development += [measure("processor", workers, seconds)[0] for workers in WORKERS[1:]]
    fitted = fit(development, _middle(kinds))
    return ScaleReport(
        processor=platform.processor() or platform.machine(),
        cores=os.cpu_count() or 1,
        load=load,
        development=tuple(development),
        held_out=tuple(held_out),
        fitted=fitted,
        judged=judge(fitted, held_out),
    )


def judge(fitted: Fitted, held_out: Sequence[Round]) -> tuple[Judged, ...]:
    """Return what the model predicts of each setting beside what was measured."""
    settings = dict.fromkeys((each.regime, each.workers) for each in held_out)
    return tuple(_judged(fitted, regime, workers, held_out) for regime, workers in settings)


def measure(
    regime: Regime, workers: int, seconds: float, *, alone: bool = False
) -> tuple[Round, list[Transactions]]:
    """Measure one round; ``alone``: measure single transactions after it, too."""
    hands, slow = HANDS[regime], SLOW_SECONDS[regime]
    replicas = REPLICAS_A_WORKER * workers if slow else FREE
    far = ROUND_TRIPS[regime]
    with (
        TemporaryDirectory() as folder,
        fleet(Path(folder), seconds=slow, slots=replicas, round_trip=far) as started,
    ):
        # So many that a machine four times as fast does not run out of them. The rest of a run of more than
        # 5,000 items is planned by a worker, in chunks that become small where the database is far away.
        most = MOST_SOURCES_FAR if far else round(workers * seconds * 100)
        run_id = started.plan(most)
        started.start(workers, hands)
        seen = window(started, run_id, seconds, warm=WARM_ITEMS * workers)
        items, spent = seen.items, seen.used
        groups = items / A_SOURCE
        measured = Round(
            regime=regime, workers=workers, hands=hands, replicas=replicas, slow_seconds=slow,
            round_trip=far,
            items_per_second=items / seen.seconds,
            worker=spent.workers / items, database=spent.database / items,
            services=spent.services / items, calls=seen.calls / groups, slow_calls=seen.slow_calls / groups,
            beside=seen.beside,
        )  # fmt: skip
        if not alone:
            return measured, []
        started.kill()
        return measured, [transactions(started.server, _result(started))]


@dataclass(frozen=True)
class Seen:
    """What happened in a while."""

    seconds: float
    items: int
    used: Used
    calls: int
    slow_calls: int
    beside: float


def window(started: Fleet, run_id: str, seconds: float, *, warm: int) -> Seen:
    """Watch a run for so long, after ``warm`` of its items have ended."""
    end = time.monotonic() + PATIENCE_SECONDS
    while started.ended(run_id) < warm:
        if time.monotonic() > end:
            raise TimeoutError(f"the run stands at {started.ended(run_id)} items; look into the worker's log")
        time.sleep(0.1)
    begun, used, ended, calls = time.perf_counter(), started.used(), started.ended(run_id), started.calls()
    busy = _busy_seconds()
    time.sleep(seconds)
    took, spent = time.perf_counter() - begun, started.used() - used
    beside = _busy_seconds() - busy - spent.workers - spent.database - spent.services
    now, called = started.ended(run_id), started.calls()
    return Seen(
        seconds=took,
        items=max(1, now - ended),
        used=spent,
        calls=sum(called.values()) - sum(calls.values()),
        slow_calls=_slow(called) - _slow(calls),
        beside=max(0.0, beside / took),
    )


def _busy_seconds() -> float:
    """Return the seconds that all cores together have worked, for other machines (steal), too."""
    fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    user, nice, system, _, _, *others = map(int, fields)
    return (user + nice + system + sum(others)) / TICKS


def _slow(calls: Mapping[str, int]) -> int:
    return sum(number for path, number in calls.items() if path.startswith("/editor/v1/"))


def _result(started: Fleet) -> ItemResult:
    """Return what a worker has recorded of an edit, which is as large as any."""
    items = schema.items.c
    query = select(items.result).where(items.state == "done", items.kind == "edit").limit(1)
    with started.ledger._session.database.reading() as connection:
        return ItemResult.model_validate(connection.execute(query).scalar_one())


def _middle(kinds: Sequence[Transactions]) -> Transactions:
    """Return the measurement whose record of eight groups is the median one."""
    return sorted(kinds, key=lambda each: each.record.worker(8) + each.record.database(8))[len(kinds) // 2]


def fit(development: Sequence[Round], kinds: Transactions) -> Fitted:
    """Return the rates: what a worker takes beside its transactions is divided over its calls."""
    calls = round(statistics.mean(each.calls for each in development))
    worker = statistics.mean(each.worker for each in development) * A_SOURCE
    service = statistics.mean(each.services for each in development) * A_SOURCE
    own = kinds.lease.worker(1) + kinds.record.worker(1)
    fitted = Fitted(
        items=A_SOURCE,
        lease=locked(kinds.lease),
        record=locked(kinds.record),
        commit=kinds.commit,
        calls=calls,
        slow_calls=round(statistics.mean(each.slow_calls for each in development)),
        call=max(0.0, worker - own) / calls,
        service=service / calls,
        interpreter=1.0,
    )
    return fitted.model_copy(update={"interpreter": _interpreter(fitted, development)})


def _interpreter(fitted: Fitted, development: Sequence[Round]) -> float:
    """Return the factor with which the model gives the rate of one worker that has all the processor."""
    alone = [each for each in development if (each.regime, each.workers) == ("processor", 1)]
    wanted = statistics.mean(each.items_per_second for each in alone)
    low, high = 1.0, MOST_INTERPRETER
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tried = fitted.model_copy(update={"interpreter": middle})
        if statistics.mean(predicted(tried, each, os.cpu_count() or 1) for each in alone) > wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _judged(fitted: Fitted, regime: Regime, workers: int, held_out: Sequence[Round]) -> Judged:
    rounds = [each for each in held_out if (each.regime, each.workers) == (regime, workers)]
    return Judged(
        regime=regime,
        workers=workers,
        predicted=statistics.mean(predicted(fitted, each, os.cpu_count() or 1) for each in rounds),
        measured=tuple(each.items_per_second for each in rounds),
    )


def predicted(fitted: Fitted, setting: Round, cores: int) -> float:
    """Return the items a second that the model expects of a setting on a machine with so many cores."""
    plant = Plant(
        workers=setting.workers, hands=setting.hands, replicas=setting.replicas,
        slow_seconds=setting.slow_seconds, cores=cores, commit=fitted.commit, round_trip=setting.round_trip,
        beside=min(setting.beside, BESIDE * cores),
    )  # fmt: skip
    return simulate(fitted.rates(), plant, groups=500).items_per_second
