"""The ledger's part of imports, on both databases: leases, fences, positions, ends, digests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from counterpose_core.blobs import cache_key
from counterpose_core.contract.datasets import Dataset, DatasetImport, ImportCreate, RejectedSource
from counterpose_core.errors import DatasetNotReady, InternalError, LeaseLost, ShardUnreadable
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables.rows import dataset_key
from counterpose_gateway.records.imports import LeasedListing, LeasedShard, NewShard
from counterpose_gateway.records.items import MAX_ATTEMPTS
from counterpose_gateway.records.sources import NewSource
from fakes.ledgers import Clock, statements

URL = "s3://bucket/shard-{000000..000002}.tar"
SECONDS = 30.0


def new(number: int, label: str = "sled", *, group: str | None = None) -> NewSource:
    return NewSource(
        image=f"{number:064x}", label=label, filename=f"{number}.png", caption=None, width=8, height=8,
        group=group, stored=100,
    )  # fmt: skip


def listed(ledger: Ledger, shards: int = 3, *, name: str = "photos") -> None:
    """An import of so many shards that are found already."""
    ledger.datasets.create(name, None)
    ledger.imports.create(name, ImportCreate(url=URL), "webdataset")
    listing = ledger.imports.lease(seconds=SECONDS, dataset=dataset_key(ledger.tenant or None, name))
    assert isinstance(listing, LeasedListing)
    paths = [f"s3://bucket/shard-{number:06d}.tar" for number in range(shards)]
    ledger.imports.add_shards(listing, [NewShard(path=path, mark=path) for path in paths], last=True)


def shard(ledger: Ledger) -> LeasedShard:
    leased = ledger.imports.lease(seconds=SECONDS)
    assert isinstance(leased, LeasedShard)
    return leased


def imported(ledger: Ledger) -> DatasetImport:
    found = ledger.datasets.get("photos").imported
    assert found is not None
    return found


def test_shards_are_read_part_by_part_and_the_last_one_ends_the_import(ledger: Ledger) -> None:
    listed(ledger, 2)
    first, second = shard(ledger), shard(ledger)
    assert ledger.imports.lease(seconds=SECONDS) is None
    assert ledger.imports.record_part(first, [new(1), new(2)], [], position=700, last=False, known=[])
    assert ledger.imports.record_part(first, [new(3)], [], position=900, last=True, known=["sled"])
    assert (imported(ledger).state, imported(ledger).images) == ("importing", 3)
    with pytest.raises(DatasetNotReady):
        ledger.datasets.add("photos", [new(9)])
    refused = RejectedSource(filename="a.tar/4", code="image-undecodable", detail="no image")
    assert ledger.imports.record_part(
        second, [new(4, "boat")], [refused], position=500, last=True, known=["sled"]
    )
    found = imported(ledger)
    assert (found.state, found.shards_done, found.images, found.n_rejected) == ("done", 2, 4, 1)
    assert found.rejected == [refused]
    dataset = ledger.datasets.get("photos")
    assert (dataset.n_sources, dataset.classes) == (4, ["boat", "sled"])
    assert ledger.datasets.stored("photos").bytes == 400


def test_a_worker_that_was_given_up_writes_nothing_and_the_next_goes_on_behind_its_last_part(
    ledger: Ledger, clock: Clock
) -> None:
    listed(ledger, 1)
    zombie = ledger.imports.restart_shard(shard(ledger), "12 etag")
    assert ledger.imports.record_part(zombie, [new(1)], [], position=700, last=False)
    clock.now += SECONDS + 1
    following = shard(ledger)
    assert (following.position, following.stamp, following.fence) == (700, "12 etag", zombie.fence + 1)
    for write in (
        lambda: ledger.imports.record_part(zombie, [new(2)], [], position=800, last=True),
        lambda: ledger.imports.renew(zombie, SECONDS),
        lambda: ledger.imports.release(zombie),
        lambda: ledger.imports.fail(zombie, InternalError("late"), whole=True),
        lambda: ledger.imports.restart_shard(zombie, "13 etag"),
    ):
        with pytest.raises(LeaseLost):
            write()
    assert [source.filename for source in ledger.datasets.sources("photos")] == ["1.png"]


def test_a_cancelled_import_stops_its_workers_and_can_be_asked_for_again(ledger: Ledger) -> None:
    listed(ledger, 2)
    leased = shard(ledger)
    assert ledger.imports.record_part(leased, [new(1)], [], position=700, last=False)
    ledger.imports.cancel("photos")
    found = imported(ledger)
    assert found.problem is not None
    assert (found.state, found.problem.code, found.images) == ("failed", "cancelled", 1)
    assert ledger.imports.lease(seconds=SECONDS) is None
    with pytest.raises(LeaseLost):
        ledger.imports.record_part(leased, [new(2)], [], position=900, last=True)
    ledger.imports.cancel("photos")
    assert imported(ledger) == found
    ledger.imports.create("photos", ImportCreate(url=URL), "webdataset")
    assert isinstance(ledger.imports.lease(seconds=SECONDS), LeasedListing)
    assert shard(ledger).position == 700


def test_an_import_that_was_asked_for_first_is_read_first(ledger: Ledger, clock: Clock) -> None:
    listed(ledger, 2)
    clock.now += 1
    listed(ledger, 2, name="a-later-one")
    assert [shard(ledger).dataset for _ in range(3)] == ["photos", "photos", "a-later-one"]


def test_a_shard_that_kills_its_workers_fails_and_the_others_are_read(ledger: Ledger, clock: Clock) -> None:
    listed(ledger, 1)
    for _ in range(MAX_ATTEMPTS):
        shard(ledger)
        clock.now += SECONDS + 1
    assert ledger.imports.lease(seconds=SECONDS) is None
    found = imported(ledger)
    assert (found.state, found.shards_failed) == ("failed", 1)
    assert found.failed_shards[0].code == "lease-lost"
    assert ledger.imports.has_ended("photos")


def test_a_shard_that_cannot_be_read_waits_longer_each_time(ledger: Ledger, clock: Clock) -> None:
    listed(ledger, 1)
    gone = ShardUnreadable("it is gone")
    for pause in (2.0, 4.0):
        ledger.imports.fail(shard(ledger), gone, whole=False)
        clock.now += pause - 0.5
        assert ledger.imports.lease(seconds=SECONDS) is None
        clock.now += 1
    ledger.imports.fail(shard(ledger), gone, whole=False)
    assert imported(ledger).state == "failed"


def test_a_worker_that_stops_cleanly_costs_no_attempt(ledger: Ledger) -> None:
    listed(ledger, 1)
    for _ in range(MAX_ATTEMPTS + 1):
        ledger.imports.release(shard(ledger))
    assert shard(ledger).fence == 2 * MAX_ATTEMPTS + 3


def test_tenants_take_turns_whoever_has_more_shards_or_was_first(ledger: Ledger) -> None:
    """One import of a tenant does not wait for all shards of another's, nor for its other imports."""
    for name, tenant in (("photos", "acme"), ("films", "acme"), ("photos", "globex")):
        listed(ledger.of(tenant), 3, name=name)
    leased: list[str] = []
    while (each := ledger.imports.lease(seconds=SECONDS, last=leased[-1] if leased else None)) is not None:
        leased.append(each.dataset)
    assert [each.split("/")[0] for each in leased] == [*["acme", "globex"] * 3, *["acme"] * 3]
    assert {leased.count(each) for each in leased} == {3}


@pytest.mark.fault("T21")
def test_who_asks_for_imports_again_and_again_stands_before_nobody(ledger: Ledger, clock: Clock) -> None:
    """A listing comes before the shards of its own tenant alone, and a shard that fails waits."""
    listed(ledger.of("globex"), 4)
    acme, leased = ledger.of("acme"), list[str]()
    for number in range(8):
        acme.datasets.create(f"again-{number}", None)
        acme.imports.create(f"again-{number}", ImportCreate(url=URL), "webdataset")
        found = ledger.imports.lease(seconds=SECONDS, last=leased[-1] if leased else None)
        assert found is not None
        leased.append(found.dataset)
        if found.dataset.startswith("acme/"):
            # It ends at once, as one of a missing address does, or is cancelled.
            if number % 2:
                ledger.imports.fail(found, ShardUnreadable("it is gone"), whole=True)
            else:
                acme.imports.cancel(found.dataset.partition("/")[2])
    assert [each.partition("/")[0] for each in leased] == ["acme", "globex"] * 4


@pytest.mark.fault("T21")
def test_workers_that_each_remember_their_last_share_between_tenants(ledger: Ledger) -> None:
    for name in ("acme", "globex", "initech"):
        listed(ledger.of(name), 8)
    # Each worker has seen another tenant last; a new one has seen none.
    lasts: list[str | None] = ["acme/photos", "globex/photos", "initech/photos", None]
    leased = list[str]()
    for _ in range(6):
        for worker, last in enumerate(lasts):
            found = ledger.imports.lease(seconds=SECONDS, last=last)
            assert found is not None
            lasts[worker] = found.dataset
            leased.append(found.dataset)
    assert {leased.count(each) for each in leased} == {8}


def test_what_waits_of_all_imports_is_read_from_indices(ledger: Ledger) -> None:
    if not ledger._session.database.is_sqlite:
        pytest.skip("explains SQLite's plans")
    listed(ledger, 3)
    seen = statements(ledger)
    shard(ledger)
    with ledger._session.database.reading() as connection:
        explained = [
            connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", given).all()
            for sql, given in seen
            if sql.startswith(("SELECT", "UPDATE"))
        ]
    plans = {row[3] for plan in explained for row in plan}
    assert {plan for plan in plans if "TEMP B-TREE" in plan} == set()
    assert {plan for plan in plans if "SCAN" in plan} == {"SCAN imports USING INDEX imports_open"}
    assert any("import_shards_open_of_dataset (dataset=? AND due_at<?)" in plan for plan in plans)


def test_many_workers_at_once_lease_each_shard_once_and_lose_no_image(ledger: Ledger) -> None:
    listed(ledger, 12)

    def work(_: int) -> list[int]:
        done = []
        while (leased := ledger.imports.lease(seconds=SECONDS)) is not None:
            assert isinstance(leased, LeasedShard)
            sources = [new(10 * leased.ordinal + each) for each in range(3)]
            assert ledger.imports.record_part(leased, sources, [], position=1, last=True)
            done.append(leased.ordinal)
        return done

    with ThreadPoolExecutor(4) as pool:
        done = [ordinal for some in pool.map(work, range(4)) for ordinal in some]
    assert sorted(done) == list(range(12))
    dataset = ledger.datasets.get("photos")
    assert dataset.n_sources == len(ledger.datasets.sources("photos")) == 36
    assert imported(ledger).state == "done"


@pytest.mark.parametrize("grouped", [False, True])
def test_a_digest_that_is_made_later_is_the_one_of_all_sources(
    ledger: Ledger, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpose_gateway.ledger.datasets.sources._READ_AT_ONCE", 3)
    ledger.datasets.create("photos", None)
    empty = ledger.datasets.get("photos")
    ledger.datasets.add("photos", [new(each) for each in range(4)])
    groups = ("video-1", "bürste") if grouped else (None, None)
    more = [new(10 + each, "boat", group=groups[each % 2]) for each in range(4)]
    ledger.datasets.add("photos", more)
    whole = ledger.datasets.get("photos")
    assert [digest_of_all(ledger, each) for each in (empty, whole)][1] == whole.digest
    assert empty.digest == cache_key(classes=[], sources=[])
    assert ledger.datasets.get("photos").digest == whole.digest


def digest_of_all(ledger: Ledger, dataset: Dataset) -> str:
    """The digest as the ledger made it when it read all sources at each addition."""
    sources = ledger.datasets.sources("photos")
    groups = {source.id: source.group for source in sources if source.group}
    more = {"groups": sorted(groups.items())} if groups else {}
    return cache_key(classes=dataset.classes, sources=sorted(source.id for source in sources), **more)


def test_a_shard_that_never_stops_changing_fails(ledger: Ledger, clock: Clock) -> None:
    listed(ledger, 1)
    for change in range(MAX_ATTEMPTS + 1):
        leased = ledger.imports.restart_shard(shard(ledger), f"{change} bytes")
        assert ledger.imports.record_part(leased, [new(change)], [], position=700, last=False, known=None)
        ledger.imports.fail(leased, ShardUnreadable("it was changed"), whole=False)
        clock.now += SECONDS
    found = imported(ledger)
    assert found.problem is not None
    assert (found.state, found.problem.code) == ("failed", "shard-unreadable")
    # Asked for again, it has as many tries as a new one.
    ledger.imports.create("photos", ImportCreate(url=URL), "webdataset")
    assert isinstance(ledger.imports.lease(seconds=SECONDS), LeasedListing)
    assert ledger.imports.restart_shard(shard(ledger), "one more").position == 0
