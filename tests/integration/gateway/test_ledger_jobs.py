"""Jobs in the ledger, on both databases: one launcher at a time, one claim an attempt, reports that count."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from counterpose_core.errors import IdempotencyConflict, IdempotencyInFlight, LeaseLost
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.jobs import CREATOR_SECONDS
from counterpose_gateway.records.jobs import LeasedJob
from fakes.ledgers import Clock, create_run, done, finish_all

CLUSTERS = ("gpus",)
SECONDS = 30.0


def new_job(ledger: Ledger, key: str | None = None, cluster: str = "gpus") -> LeasedJob:
    """A job, leased to its creator."""
    return ledger.jobs.create(
        cluster=cluster, workers=4, kind="stress-test", request={"dataset": "demo"}, fingerprint="f",
        idempotency_key=key,
    )  # fmt: skip


def test_of_many_launchers_one_claims_an_attempt(ledger: Ledger) -> None:
    ledger.jobs.put_off(new_job(ledger), 0.0)

    def launch(_: int) -> bool:
        leased = ledger.jobs.lease(CLUSTERS, SECONDS)
        if leased is None:
            return False
        ledger.jobs.claim_attempt(leased)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(launch, range(8))) == 1
    (job,) = ledger.jobs.page().jobs
    assert [attempt.number for attempt in job.attempts] == [1]


def test_a_lease_that_ran_out_or_was_given_back_writes_nothing(ledger: Ledger, clock: Clock) -> None:
    created = new_job(ledger)
    assert ledger.jobs.lease(CLUSTERS, SECONDS) is None
    clock.now += CREATOR_SECONDS
    leased = ledger.jobs.lease(CLUSTERS, SECONDS)
    assert leased is not None
    attempt = ledger.jobs.claim_attempt(leased)
    for void in (created, leased):
        if void is leased:
            ledger.jobs.put_off(leased, 0.0, "waits")
        with pytest.raises(LeaseLost):
            ledger.jobs.set_run(void, "run")
        with pytest.raises(LeaseLost):
            ledger.jobs.end_attempt(void, attempt, "lost")
    assert ledger.jobs.get(created.id).message == "waits"
    # The next launcher finds the claim, and ends it once.
    again = ledger.jobs.lease(CLUSTERS, SECONDS)
    assert again is not None
    assert again.attempt is not None
    assert (again.attempt.submission_id, again.attempt.submitted) == (attempt.submission_id, False)
    ledger.jobs.end(again, "failed")
    with pytest.raises(LeaseLost):
        ledger.jobs.put_off(again, 0.0)
    assert ledger.jobs.lease(CLUSTERS, SECONDS) is None


def test_jobs_of_other_clusters_are_left_alone_unless_they_are_cancelled(ledger: Ledger) -> None:
    other = new_job(ledger, cluster="another")
    ledger.jobs.put_off(other, 0.0)
    assert ledger.jobs.lease(CLUSTERS, SECONDS) is None
    assert ledger.jobs.begin_cancelling(other.id) is None
    leased = ledger.jobs.lease(CLUSTERS, SECONDS)
    assert leased is not None
    assert (leased.id, leased.state) == (other.id, "cancelling")


def test_a_report_counts_for_its_attempt_until_it_or_the_run_has_ended(ledger: Ledger, clock: Clock) -> None:
    job, run_id = new_job(ledger), create_run(ledger, sources=1, per_source=2)
    attempt = ledger.jobs.claim_attempt(job)
    ledger.jobs.note_submitted(job, attempt)
    told = ledger.jobs.news(job.id, 1, works=False)
    assert (told.run_id, told.needed, told.dataset, told.workers) == (None, True, "demo", 4)
    # The driver's report says that the attempt lives, not that a worker does.
    assert ledger.jobs.get(job.id).attempts[0].seen_at is None
    ledger.jobs.set_run(job, run_id)
    assert ledger.jobs.news(job.id, 1).run_id == run_id
    clock.now += CREATOR_SECONDS + 10.0
    leased = ledger.jobs.lease(CLUSTERS, SECONDS)
    assert leased is not None
    assert leased.attempt is not None
    assert (leased.attempt.seen, leased.attempt.quiet_s > 100) == (True, True)
    assert ledger.jobs.news(job.id, 1).needed
    finish_all(ledger)
    assert not ledger.jobs.news(job.id, 1).needed
    assert not ledger.jobs.news(job.id, 2).needed
    assert not ledger.jobs.news("gone", 1).needed


def test_attempts_count_as_fruitless_only_in_a_row_and_without_any_progress(ledger: Ledger) -> None:
    job, run_id = new_job(ledger), create_run(ledger, sources=2, per_source=1)
    ledger.jobs.set_run(job, run_id)
    fruitless = []
    for number in range(4):
        attempt = ledger.jobs.claim_attempt(job)
        if number == 2:
            group = ledger.items.lease("worker", seconds=SECONDS, run_id=run_id)
            assert group is not None
            for item in group.items:
                ledger.items.finish(item.id, item.fence, done())
        fruitless.append(ledger.jobs.end_attempt(job, attempt, "lost"))
    assert fruitless == [1, 2, 0, 1]


def test_a_key_names_one_job_and_is_in_flight_until_its_run_is_there(ledger: Ledger, clock: Clock) -> None:
    job = new_job(ledger, key="k")
    with pytest.raises(IdempotencyInFlight):
        new_job(ledger, key="k")
    with pytest.raises(IdempotencyInFlight):
        ledger.jobs.for_key("k", "f")
    with pytest.raises(IdempotencyConflict):
        ledger.jobs.for_key("k", "g")
    ledger.jobs.set_run(job, "run")
    found = ledger.jobs.for_key("k", "f")
    assert found is not None
    assert (found.id, found.run) == (job.id, "run")
    dropped = new_job(ledger, key="other")
    ledger.jobs.drop(dropped)
    assert ledger.jobs.for_key("other", "f") is None
