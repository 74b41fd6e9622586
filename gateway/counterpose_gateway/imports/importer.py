"""The importer: leases listings and shards of imports, and records what they hold part by part.

Finding the shards of an import, and reading one, by layout.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.datasets import RejectedSource
from counterpose_core.errors import (
    ClassMapMismatch,
    CounterposeError,
    InternalError,
    LeaseLost,
    QuotaExceeded,
    RequestError,
    ShardUnreadable,
)
from counterpose_core.text.plain_text import Appearances
from counterpose_gateway.images.intake import admit, checked_classes, rejected_source, require_distinct
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.imports import image_folder, parquet_files, tar_shards
from counterpose_gateway.imports.storage import Sample, Storage, reading, refused, with_revision
from counterpose_gateway.imports.tar_shards import read_tar
from counterpose_gateway.imports.watch import Watch
from counterpose_gateway.records.imports import LeasedImport, LeasedListing, LeasedShard, NewShard
from counterpose_gateway.records.sources import NewSource
from counterpose_gateway.runs.renewal import keep_leased

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

PART = 500
"""Files that are recorded in one transaction: all that a killed worker repeats."""
PART_SECONDS = 20.0
"""After so long a part is recorded, however few files it has."""
DECODING = 4
"""Threads that decode and store images; a durable write waits for the disk most of its time."""
TURN_SECONDS = 60.0
"""After so long a shard is given back behind its last part: others have their turn."""
SHARDS_AT_ONCE = 100

_logger = logging.getLogger(__name__)


class Importer:
    """Imports one shard at a time, beside what else the worker does; of one ``dataset`` alone if given."""

    def __init__(
        self,
        ledger: Ledger,
        store: BlobStore,
        storage: Storage,
        quotas: Quotas,
        *,
        lease_seconds: float,
        most_shards: int,
        dataset: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._dataset = dataset
        self._store = store
        self._storage = storage
        self._quotas = quotas
        self._lease_seconds = lease_seconds
        self._most_shards = most_shards
        self._busy = False
        self._last: str | None = None
        self.is_first = True

    async def lease(self) -> LeasedImport | None:
        """Lease what waits to be imported, unless this process imports already; call `work` next."""
        if self._busy:
            return None
        self._busy = True
        leased = None
        try:
            leased = await asyncio.to_thread(
                self._ledger.imports.lease,
                seconds=self._lease_seconds,
                dataset=self._dataset,
                last=self._last,
            )
        finally:
            self._busy = leased is not None
        if leased is not None:
            self._last = leased.dataset
        return leased

    async def work(self, leased: LeasedImport) -> None:
        """List, or read, what is leased; after a cancellation the thread reads no further."""
        stopped = threading.Event()
        renewal = asyncio.create_task(self._keep(leased, stopped))
        try:
            await _in_a_thread_of_its_own(lambda: self._import(leased, stopped))
        finally:
            renewal.cancel()
            stopped.set()
            self._busy, self.is_first = False, not self.is_first
            await asyncio.to_thread(self._release, leased)

    async def _keep(self, leased: LeasedImport, stopped: threading.Event) -> None:
        await keep_leased(self._renew, leased, self._lease_seconds)
        # It was cancelled, or taken over.
        stopped.set()

    async def _renew(self, leased: LeasedImport, seconds: float) -> None:
        await asyncio.to_thread(self._ledger.imports.renew, leased, seconds)

    def _import(self, leased: LeasedImport, stopped: threading.Event) -> None:
        try:
            if isinstance(leased, LeasedShard):
                self._read(leased, stopped)
            elif isinstance(leased, LeasedListing):
                self._list(leased, stopped)
        except LeaseLost as error:
            _logger.info("%s", error.detail)
        except CounterposeError as error:
            self._fail(leased, error)
        # Libraries of object stores have errors of their own: one must end this import, not the worker.
        except Exception as error:
            _logger.exception("an import into %s stopped", leased.dataset)
            self._fail(leased, InternalError(f"unexpected {type(error).__name__}: {error}"))

    def _list(self, leased: LeasedListing, stopped: threading.Event) -> None:
        shards = find_shards(leased, self._storage, self._most_shards)
        while not stopped.is_set():
            some = list(islice(shards, SHARDS_AT_ONCE))
            if some and not leased.listed:
                if leased.layout != "image-folder":
                    # A pattern may announce any number: if the first is missing, none is written down.
                    self._storage.stamp(some[0].path)
                self._name_classes(leased, some[0])
            leased = self._ledger.imports.add_shards(leased, some, last=len(some) < SHARDS_AT_ONCE)
            if len(some) < SHARDS_AT_ONCE:
                return

    def _name_classes(self, leased: LeasedListing, first: NewShard) -> None:
        names = None if leased.request.classes else named_classes(leased, first, self._storage)
        if (checked := checked_classes(names)) is not None:
            self._ledger.imports.name_classes(leased, checked)

    def _read(self, leased: LeasedShard, stopped: threading.Event) -> None:
        # A part of a folder has no size or version of its own: its files are read one by one.
        stamp = "" if leased.files is not None else self._storage.stamp(leased.path)
        if leased.stamp != stamp:
            # Its positions mean nothing in another file; images that are there already are added once.
            leased = self._ledger.imports.restart_shard(leased, stamp)
        end = time.monotonic() + TURN_SECONDS
        with ThreadPoolExecutor(DECODING) as pool:
            outcomes = self._outcomes(leased, pool, stopped)
            for part, last in _parts(outcomes):
                if stopped.is_set():
                    return
                if stamp and (now := self._storage.stamp(leased.path)) != stamp:
                    raise ShardUnreadable(
                        f"the shard {leased.path!r} changed while it was read (it was {stamp!r}, it is "
                        f"{now!r}); leave shards alone until the import has ended"
                    )
                self._record(leased, part, last=last)
                if not last and time.monotonic() > end:
                    return
        if self._ledger.imports.has_ended(leased.dataset):
            # Its digest is made here rather than while a caller waits: of a million images it takes seconds.
            self._ledger.datasets.get(leased.dataset)

    def _outcomes(
        self, leased: LeasedShard, pool: ThreadPoolExecutor, stopped: threading.Event
    ) -> Iterator[_Outcome]:
        """Yield what came of each file, in order; some are decoded ahead."""
        ahead: deque[Future[_Outcome]] = deque()
        watch = Watch(leased.path, stopped)
        try:
            for sample in read_shard(leased, self._storage, watch):
                ahead.append(pool.submit(self._take_in, sample, leased.classes))
                if len(ahead) > 2 * DECODING:
                    yield ahead.popleft().result()
                if stopped.is_set():
                    return
                watch.rest()
        except ShardUnreadable:
            # What came before the fault is as good as without it.
            while ahead:
                yield ahead.popleft().result()
            raise
        while ahead:
            yield ahead.popleft().result()

    def _take_in(self, sample: Sample, classes: Sequence[str] | None) -> _Outcome:
        source = sample.source
        if isinstance(source, RejectedSource):
            return _Outcome(source, sample.following)
        try:
            return _Outcome(admit(source, self._store, classes, None), sample.following)
        except RequestError as error:
            return _Outcome(rejected_source(source, error), sample.following)

    def _record(self, leased: LeasedShard, part: Sequence[_Outcome], *, last: bool) -> None:
        taken = [each.came for each in part if isinstance(each.came, NewSource)]
        rejected = [each.came for each in part if isinstance(each.came, RejectedSource)]
        position = part[-1].following if part else leased.position
        while True:
            # Of two workers that meet a new class at once, the second compares its own with the first's.
            known = None if leased.classes is not None else self._ledger.datasets.classes(leased.dataset)
            kept, alike = (taken, []) if known is None else _told_apart(taken, known)
            try:
                recorded = self._ledger.imports.record_part(
                    leased, kept, [*rejected, *alike], position=position, last=last, known=known,
                    check=self._quotas.check_import,
                )  # fmt: skip
            except (LeaseLost, QuotaExceeded):
                self._ledger.blobs.leave(leased.dataset, taken)
                raise
            if recorded:
                if alike:
                    # They were stored before their labels were compared.
                    self._ledger.blobs.leave(leased.dataset, [each for each in taken if each not in kept])
                return

    def _fail(self, leased: LeasedImport, error: CounterposeError) -> None:
        what = leased.path if isinstance(leased, LeasedShard) else leased.request.url
        _logger.warning("import into %s from %s: %s", leased.dataset, what, error.detail)
        try:
            # There is no room for the other shards either.
            self._ledger.imports.fail(leased, error, whole=isinstance(error, QuotaExceeded))
        except CounterposeError as away:
            _logger.warning("the failure of %s is not noted: %s", what, away.detail)

    def _release(self, leased: LeasedImport) -> None:
        try:
            self._ledger.imports.release(leased)
        except LeaseLost:
            # The usual case: what was read to its end or failed leaves no lease to give back.
            return
        except CounterposeError as error:
            _logger.warning(
                "the lease of an import into %s runs out by itself: %s", leased.dataset, error.detail
            )


@dataclass(frozen=True)
class _Outcome:
    """What came of a file, and where in the shard the next one begins."""

    came: NewSource | RejectedSource
    following: int


def _parts(outcomes: Iterator[_Outcome]) -> Iterator[tuple[list[_Outcome], bool]]:
    """Yield what is recorded together, and whether it is the last of the shard; at least one part."""
    part: list[_Outcome] = []
    began = time.monotonic()
    try:
        for outcome in outcomes:
            if len(part) >= PART or (part and time.monotonic() > began + PART_SECONDS):
                yield part, False
                part, began = [], time.monotonic()
            part.append(outcome)
    except ShardUnreadable:
        if part:
            yield part, False
        raise
    yield part, True


def _told_apart(
    taken: Sequence[NewSource], known: Sequence[str]
) -> tuple[list[NewSource], list[RejectedSource]]:
    """Refuse images whose label looks like another class of the dataset."""
    labels = Appearances(known)
    kept: list[NewSource] = []
    alike: list[RejectedSource] = []
    for source in taken:
        try:
            require_distinct(source.label, labels)
        except ClassMapMismatch as error:
            alike.append(refused(source.filename, error))
        else:
            labels.add(source.label)
            kept.append(source)
    return kept, alike


async def _in_a_thread_of_its_own(work: Callable[[], None]) -> None:
    """Wait for work that raises nothing; who is cancelled, and the process, end without it.

    A storage may not answer for minutes, and the threads of the event loop are waited for at its end.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        work()
        with suppress(RuntimeError):
            # The loop was closed: nobody waits.
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, daemon=True, name="import").start()
    await done.wait()


def find_shards(leased: LeasedListing, storage: Storage, most: int) -> Iterator[NewShard]:
    """Yield the shards of an import that are not stored yet.

    Raises:
        RequestError: the address is refused, or holds no such layout.
        QuotaExceeded: they are more than ``most``.
    """
    ranges = [] if leased.layout == "image-folder" else tar_shards.RANGE.findall(leased.request.url)
    # What a pattern announces is counted before one of its names is written down.
    announced = math.prod(int(last) - int(first) + 1 for first, last in ranges)
    for number, shard in enumerate(_found(leased, storage), start=leased.listed + 1):
        if max(number, announced) > most:
            raise QuotaExceeded(
                f"{leased.request.url!r} has more than {most} shards (COUNTERPOSE_MAX_IMPORT_SHARDS); write "
                "larger ones"
            )
        yield shard


def named_classes(leased: LeasedListing, first: NewShard, storage: Storage) -> Sequence[str] | None:
    """Return the class names that the files themselves give, or None."""
    if leased.layout == "webdataset":
        return tar_shards.class_names(_url(leased), storage)
    if leased.layout == "parquet":
        with reading(first.path):
            return parquet_files.class_names(first.path, leased.request, storage)
    return None


def read_shard(leased: LeasedShard, storage: Storage, watch: Watch) -> Iterator[Sample]:
    """Yield the samples of a shard from its position on.

    Raises:
        LeaseLost: it was stopped.
        RequestError: it is not of its layout.
        ShardUnreadable: it cannot be read.
    """
    if leased.files is not None:
        assert leased.label is not None  # each part of a folder is of one class
        yield from image_folder.read_files(leased.path, leased.files, leased.label, storage, leased.position)
        return
    request, names = leased.request, leased.names
    with reading(leased.path), storage.open(leased.path) as file:
        opened = watch.watched(file)
        if leased.layout == "parquet":
            yield from parquet_files.read_parquet(opened, leased.position, leased.path, names, request)
        else:
            label_key = request.label_column or "label"
            yield from read_tar(opened, leased.position, leased.path, names, label_key)


def _url(leased: LeasedListing) -> str:
    return with_revision(leased.request.url, leased.request.revision)


def _found(leased: LeasedListing, storage: Storage) -> Iterator[NewShard]:
    url = _url(leased)
    if leased.layout == "webdataset":
        return tar_shards.find_shards(url, storage, leased.listed)
    if leased.layout == "parquet":
        return parquet_files.find_shards(url, leased.request, storage, leased.listed)
    return image_folder.find_shards(url, storage, leased.mark, leased.request.classes)
