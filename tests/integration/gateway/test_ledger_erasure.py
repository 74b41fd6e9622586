"""Datasets' ends, loose digests and quotas on both databases."""

from __future__ import annotations

import pytest

from counterpose_core.errors import DatasetNotReady, QuotaExceeded, UnknownDataset
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.sources import NewSource
from counterpose_gateway.records.tenants import Quota
from fakes.ledger_audit import violated
from fakes.ledgers import Clock, create_run, done

IMAGES = ["a" * 64, "b" * 64]


def fill(ledger: Ledger, name: str, *images: str) -> None:
    """Make a dataset of these images."""
    ledger.datasets.create(name, None)
    sources = [
        NewSource(image=each, label="bus", filename="a.png", caption=None, width=8, height=8)
        for each in images
    ]
    ledger.datasets.add(name, sources)


@pytest.mark.fault("T18")
def test_a_dataset_that_has_ended_leaves_its_images_loose_unless_another_has_them(
    ledger: Ledger, clock: Clock
) -> None:
    fill(ledger, "short", *IMAGES)
    fill(ledger, "long", IMAGES[0])
    ledger.datasets.end("short", clock.now + 60)
    assert ledger.datasets.expire() == 0
    clock.now += 60
    assert ledger.datasets.expire() == 1
    with pytest.raises(UnknownDataset):
        ledger.datasets.get("short")
    assert sorted(ledger.blobs.loose(before=clock.now, most=10)) == IMAGES
    assert ledger.blobs.named(set(IMAGES)) == {IMAGES[0]}
    # Noted again: it is not what was noted before.
    noted, clock.now = clock.now, clock.now + 1
    ledger.blobs.loosen({IMAGES[1]}, clock.now)
    assert not ledger.blobs.is_loose(IMAGES[1], before=noted)
    ledger.blobs.settle(set(IMAGES), before=noted)
    assert ledger.blobs.loose(before=clock.now, most=10) == [IMAGES[1]]
    ledger.blobs.erased_from_log()
    fill(ledger, "short", IMAGES[1])


@pytest.mark.fault("T18")
def test_a_dataset_is_not_deleted_under_a_run(ledger: Ledger) -> None:
    run_id = create_run(ledger)
    about = ledger.runs.get(run_id).dataset
    fill(ledger, about, IMAGES[0])
    with pytest.raises(DatasetNotReady, match=run_id):
        ledger.datasets.delete(about)
    ledger.runs.cancel(run_id)
    ledger.datasets.delete(about)


def test_a_quota_counts_what_items_used_and_ends_the_run(ledger: Ledger) -> None:
    run_id = create_run(ledger)
    ledger.access.set_quota("default", Quota(images=1))
    group = ledger.items.lease("worker", seconds=30)
    assert group is not None
    for item in group.items:
        ledger.items.finish(item.id, item.fence, done())
    assert ledger.access.usage().images == len(group.items)
    assert ledger.items.lease_many("worker", seconds=30, most=1) == []
    run = ledger.runs.get(run_id)
    assert (run.state, run.problem and run.problem.code) == ("failed", "quota-exceeded")
    assert violated(ledger, run_id) == []
    with pytest.raises(QuotaExceeded, match="of 1 images"):
        ledger.runs.resume(run_id)
    ledger.access.set_quota("default", Quota())
    assert ledger.runs.resume(run_id).state == "queued"
