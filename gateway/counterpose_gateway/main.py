"""``counterpose-gateway``: serve the API, work on runs, register a dataset, manage keys, print OpenAPI."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from counterpose_core.blobs import NO_ROOM, BlobStore
from counterpose_core.contract.datasets import DatasetCreate
from counterpose_core.contract.field_errors import in_words
from counterpose_core.errors import CounterposeError, StorageError
from counterpose_core.suite import load_suite
from counterpose_core.text.plain_text import escaped
from counterpose_core.tracing import tracing_to
from counterpose_gateway.app import bare_app, create_admin_app, create_app
from counterpose_gateway.commands.keys import manage_keys, manage_quotas, print_log
from counterpose_gateway.commands.parser import parser
from counterpose_gateway.http.request_head import Caller
from counterpose_gateway.http.server import allow_connections, prepare_event_loop, serve_together, server_of
from counterpose_gateway.images.intake import register_folder
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.imports.importer import Importer
from counterpose_gateway.imports.storage import Storage
from counterpose_gateway.jobs.look import JobLook, Launcher, WorkerCost
from counterpose_gateway.jobs.ray_cluster import Clusters, reaching_clusters
from counterpose_gateway.jobs.submission import make_run
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods import METHODS
from counterpose_gateway.records.tenants import tenant_named
from counterpose_gateway.routes.context import GatewayContext
from counterpose_gateway.services.accounts import Accounted
from counterpose_gateway.services.clients import HttpHealth, calling_services, services_of
from counterpose_gateway.settings import GatewaySettings, settings_of_process
from counterpose_gateway.store.budget import StoreBudget
from counterpose_gateway.store.erasure import Erasure
from counterpose_gateway.store.ownership import Ownership
from counterpose_gateway.summaries.column_keeper import ColumnKeeper
from counterpose_gateway.summaries.columns import ColumnFolder
from counterpose_gateway.summaries.joined import JoinedWork
from counterpose_gateway.summaries.processes import column_folder, summary_processes
from counterpose_gateway.webhooks.delivery import Deliveries, gate_summary
from counterpose_gateway.webhooks.target import Target
from counterpose_gateway.worker.concurrency import Concurrency
from counterpose_gateway.worker.disks import require_disks, stop_with_disks
from counterpose_gateway.worker.job_work import JobPart, run_of, until_not_needed
from counterpose_gateway.worker.planner import Planner
from counterpose_gateway.worker.process_readings import ProcessReadings
from counterpose_gateway.worker.spending import LedgerAccounts
from counterpose_gateway.worker.worker import Worker

USAGE_ERROR = 2
STORAGE_ERROR = 3
SERVE_PATIENCE_SECONDS = 10.0
"""Seconds for which `serve` repeats a call: its callers are waiting. `work` can repeat for minutes."""


class LogLines(logging.Formatter):
    """A line for each message: names and addresses of others move no cursor, and begin no line of theirs."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - `logging` calls it so
        """Return the line of a message."""
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - `logging` calls it so
        """Return the lines of a traceback, set in: the last may quote others, and have several lines."""
        return "\n".join(f"  {escaped(line)}" for line in super().formatException(ei).split("\n"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the verbs and return the exit code."""
    arguments = parser(__doc__).parse_args(argv)
    lines = logging.StreamHandler()
    lines.setFormatter(LogLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    # At INFO, httpx writes a line per call, which is hundreds a minute.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Other users of a shared machine must not read uploaded images and the ledger.
    os.umask(0o077)
    try:
        return _VERBS[arguments.verb](arguments)
    except (CounterposeError, ValueError, OSError) as error:
        # Of the system's errors only a full disk is told in one line; the others are unexpected.
        if isinstance(error, OSError) and error.errno not in NO_ROOM:
            raise
        sys.stderr.write(f"counterpose-gateway: {in_words(error)}\n")
        return STORAGE_ERROR if isinstance(error, StorageError | OSError) else USAGE_ERROR


def _serve(arguments: argparse.Namespace) -> int:
    names = ("host", "port", "admin_port", "accept_ledger")
    settings = settings_of_process(**{name: getattr(arguments, name) for name in names})
    patience = min(settings.patience_seconds, SERVE_PATIENCE_SECONDS)
    asyncio.run(_serving(settings.model_copy(update={"patience_seconds": patience})))
    return 0


async def _serving(settings: GatewaySettings) -> None:
    prepare_event_loop()
    allow_connections(settings.max_requests_in_flight + settings.max_listeners)
    suite = load_suite(settings.suite, settings)
    ledger, store, owner = _owned(settings)
    # Removes files that killed writers left; files younger than an hour may still be in use.
    store.sweep()
    joined, columns = summary_processes(settings), column_folder(settings)
    budget = StoreBudget(store, settings.store_budget_bytes)
    tracing = tracing_to(settings.otlp_endpoint, "counterpose-gateway")
    async with (
        # Its callers repeat a call themselves: they shall hear soon that nothing listens.
        calling_services(settings, tracing, absent_seconds=0.0, accounted=Accounted(None, suite)) as caller,
        reaching_clusters(settings) as clusters,
    ):
        app = create_app(
            settings,
            ledger=ledger,
            store=store,
            services=services_of(caller),
            suite=suite,
            health=HttpHealth(caller, suite.services),
            joined=joined,
            columns=columns,
            budget=budget,
            clusters=clusters,
            tracing=tracing,
        )
        _let_signals_pass()
        stopped = threading.Event()
        # Beside the answers: what a killed gateway has left half done may be a million rows.
        going_on = asyncio.create_task(asyncio.to_thread(ledger.runs.go_on, stopped.is_set))
        launching = _launching(settings, ledger, clusters, app.state.context)
        telling = _until_left(ProcessReadings(ledger, caller.counts).keep())
        target = Target(private=settings.private_webhooks)
        delivering = _until_left(
            Deliveries(ledger.webhooks, target, partial(gate_summary, ledger, store)).keep()
        )
        erasing = _until_left(Erasure(ledger, store, app.state.context.forget).keep())
        keeping = _keeping_columns(ledger, joined, columns)
        marking = owner.kept()
        async with keeping, _until_left(budget.keep()), launching, telling, delivering, erasing, marking:
            server = server_of(app, settings)
            async with _until_left(stop_with_disks(ledger, store, server)):
                await serve_together(server, _admin_server(app, settings))
        stopped.set()
        await going_on
    if joined is not None:
        joined.close()
    tracing.close()
    ledger.close()
    require_disks(ledger, store)


def _admin_server(app: FastAPI, settings: GatewaySettings) -> uvicorn.Server | None:
    if settings.admin_port is None:
        return None
    return server_of(create_admin_app(app, settings), settings, admin=True)


@asynccontextmanager
async def _keeping_columns(
    ledger: Ledger, joined: JoinedWork | None, columns: ColumnFolder | None
) -> AsyncIterator[None]:
    """Keep the columns of runs that go on, where other processes do so."""
    if joined is None or columns is None:
        yield
        return
    async with _until_left(ColumnKeeper(ledger.runs, METHODS, joined, columns).keep()):
        yield


@asynccontextmanager
async def _launching(
    settings: GatewaySettings, ledger: Ledger, clusters: Clusters, context: GatewayContext
) -> AsyncIterator[None]:
    """Look after the jobs of the clusters, where the operator named some."""
    if not clusters:
        yield
        return
    cost = WorkerCost(worker_cpus=settings.job_worker_cpus, driver_cpus=settings.job_driver_cpus)
    look = JobLook(ledger, clusters, lambda job: make_run(job, context.of(Caller(job.tenant))), cost)
    async with _until_left(Launcher(ledger.jobs, look, tuple(settings.clusters)).keep()):
        yield


@asynccontextmanager
async def _until_left(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Work beside the block, and stop with it."""
    keeping = asyncio.create_task(work)
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def _ledger(settings: GatewaySettings) -> Ledger:
    return Ledger(settings.database_url, check_seconds=settings.ledger_check_seconds)


def _owned(settings: GatewaySettings) -> tuple[Ledger, BlobStore, Ownership]:
    """Open ledger and store, which must belong together."""
    ledger, store = _ledger(settings), BlobStore(settings.store_url)
    owner = Ownership(ledger, store)
    try:
        owner.require(accept=settings.accept_ledger)
    except BaseException:
        ledger.close()
        raise
    return ledger, store, owner


def _let_signals_pass() -> None:
    # Uvicorn raises the signal that stopped it again when it ends, which would kill us before we close.
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda number, frame: None)


def _work(arguments: argparse.Namespace) -> int:
    settings = settings_of_process(concurrency=arguments.concurrency, accept_ledger=arguments.accept_ledger)
    part = None if arguments.job is None else JobPart(arguments.job, arguments.attempt)
    if part is not None and arguments.follow_only:
        asyncio.run(_following(settings, part))
    else:
        asyncio.run(_working(settings, part))
    return 0


async def _following(settings: GatewaySettings, part: JobPart) -> None:
    """Report that an attempt lives until its job ends; a signal ends this at once."""
    ledger = _ledger(settings)
    await until_not_needed(ledger.jobs, part, works=False)
    ledger.close()


async def _working(settings: GatewaySettings, part: JobPart | None) -> None:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        # The event lets the worker give its leases back before the process ends. Handlers are set before the
        # ledger opens, because that may migrate the database, and a stop during it must be orderly, too.
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    ledger, store, owner = _owned(settings)
    importer_of = partial(_importer, settings, ledger, store)
    news = None if part is None else await run_of(ledger.jobs, part, stop, importer_of)
    if part is not None and news is None:
        ledger.close()
        return
    run_id, sharing = (None, 1) if news is None else (news.run_id, news.workers)
    suite = load_suite(settings.suite, settings)
    tracing = tracing_to(settings.otlp_endpoint, "counterpose-worker")
    accounted = Accounted(LedgerAccounts(ledger, settings.call_seconds), suite)
    async with calling_services(settings, tracing, accounted=accounted) as caller:
        worker = Worker(
            # A container that starts again has the host and the process id of the one that was killed.
            f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
            ledger=ledger,
            store=store,
            services=services_of(caller),
            concurrency=Concurrency(settings.concurrency, HttpHealth(caller, suite.services), sharing),
            lease_seconds=settings.lease_seconds,
            planner=Planner(
                ledger,
                METHODS,
                lease_seconds=settings.lease_seconds,
                most_items=settings.max_items_per_run,
                store=store,
                run_id=run_id,
            ),
            importer=None if part is not None else importer_of(None),
            run_id=run_id,
            tracing=tracing,
        )
        # A process that was killed while it cancelled or deleted a large run has left it half done.
        await asyncio.to_thread(ledger.runs.go_on, stop.is_set)
        readings = ProcessReadings(ledger, caller.counts, lambda: worker.reading)
        async with _stopping_with(ledger, part, stop), _until_left(readings.keep()), owner.kept():
            await worker.work(stop)
    tracing.close()
    ledger.close()


def _importer(settings: GatewaySettings, ledger: Ledger, store: BlobStore, dataset: str | None) -> Importer:
    return Importer(
        ledger,
        store,
        Storage(settings.import_from),
        Quotas.of(settings),
        lease_seconds=settings.lease_seconds,
        most_shards=settings.max_import_shards,
        dataset=dataset,
    )


@asynccontextmanager
async def _stopping_with(ledger: Ledger, part: JobPart | None, stop: asyncio.Event) -> AsyncIterator[None]:
    """Set ``stop`` when the part of a job is not needed any more."""
    if part is None:
        yield
        return

    async def follow() -> None:
        await until_not_needed(ledger.jobs, part)
        stop.set()

    async with _until_left(follow()):
        yield


def _register_dataset(arguments: argparse.Namespace) -> int:
    settings = settings_of_process()
    name = DatasetCreate(name=arguments.name).name
    opened, store, _ = _owned(settings)
    ledger = opened.of(tenant_named(arguments.tenant))
    notes = register_folder(
        name, arguments.folder, ledger, store,
        with_captions=arguments.captions, quotas=Quotas.of(settings),
    )  # fmt: skip
    dataset = ledger.datasets.get(name)
    sys.stdout.write(f"{name}: {dataset.n_sources} images of {len(dataset.classes)} classes\n")
    for note in notes:
        sys.stderr.write(f"{note}\n")
    for rejected in dataset.rejected:
        sys.stderr.write(f"{rejected.filename}: {rejected.code}: {rejected.detail}\n")
    return 0


def _roll_back(arguments: argparse.Namespace) -> int:
    with _opened() as ledger:
        ledger.roll_back(arguments.revision)
    sys.stdout.write(f"the ledger is at revision {arguments.revision}; now start the earlier version\n")
    return 0


def _openapi(arguments: argparse.Namespace) -> int:
    document = json.dumps(bare_app().openapi(), indent=2, sort_keys=True) + "\n"
    if arguments.out is None:
        sys.stdout.write(document)
    else:
        arguments.out.write_text(document, encoding="utf-8")
    return 0


def _keys(arguments: argparse.Namespace) -> int:
    with _opened() as ledger:
        return manage_keys(arguments, ledger, dt.datetime.now(dt.UTC))


def _quotas(arguments: argparse.Namespace) -> int:
    with _opened() as ledger:
        return manage_quotas(arguments, ledger)


def _access_log(arguments: argparse.Namespace) -> int:
    with _opened() as ledger:
        return print_log(arguments, ledger)


@contextmanager
def _opened() -> Iterator[Ledger]:
    ledger = _ledger(settings_of_process())
    try:
        yield ledger
    finally:
        ledger.close()


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "serve": _serve,
    "work": _work,
    "register-dataset": _register_dataset,
    "keys": _keys,
    "access-log": _access_log,
    "quotas": _quotas,
    "roll-back": _roll_back,
    "openapi": _openapi,
}

if __name__ == "__main__":
    sys.exit(main())
