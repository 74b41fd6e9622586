"""Quotas of tenants: checked before a run, held during it, counted exactly, and renewed once a month."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from counterpose_core.types import Cost
from counterpose_gateway.main import main
from counterpose_gateway.records.tenants import Quota
from fakes import ports
from fakes.access_keys import new_access_key
from fakes.benchmarks import benchmark_services, uploaded
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated, violated_totals
from fakes.ledgers import Clock
from fakes.problems import problem
from fakes.world import CLASSES

RUNS = "/v1/stress-tests"
BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3}
ACME = "acme"
HOUR = 3600.0
MONTH_END = dt.datetime(2026, 11, 30, 23, 30, tzinfo=dt.UTC).timestamp()


@pytest.fixture
def clock() -> Clock:
    return Clock(dt.datetime(2026, 11, 10, tzinfo=dt.UTC).timestamp())


@pytest.fixture(autouse=True)
def _half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fakes' edits take some time of a GPU."""
    taken = Cost(seconds=0.5)
    monkeypatch.setattr(ports, "_cost", lambda *_: taken)


@pytest.fixture
async def gateway(tmp_path: Path, clock: Clock) -> AsyncIterator[FakeGateway]:
    """A gateway that acme calls, with a dataset of hers."""
    async with fake_gateway(tmp_path, clock) as opened:
        _, whole = new_access_key(opened.ledger, tenant=ACME)
        opened.http.headers["authorization"] = f"Bearer {whole}"
        await opened.upload("demo", 2)
        yield opened


async def make(gateway: FakeGateway, **changes: object) -> str:
    """Make a run and return its id."""
    made = await gateway.http.post(RUNS, json=BODY | changes)
    assert made.status_code == 202, made.text
    return str(made.json()["id"])


async def ended(gateway: FakeGateway, run_id: str) -> dict[str, object]:
    """Work until nothing is left to do, and return the run."""
    await gateway.worker().work_off()
    run: dict[str, object] = (await gateway.http.get(f"/v1/runs/{run_id}")).json()
    return run


async def states(gateway: FakeGateway, run_id: str) -> dict[str, tuple[str, object]]:
    """The state and the chosen image of each item, by what it is: its kind, image, type and slot."""
    items = (await gateway.http.get(f"/v1/runs/{run_id}/items?limit=1000")).json()["items"]
    return {
        f"{each['kind']} {each['source_image']} {each['edit_type']} {each['ordinal']}": (
            each["state"], (each["result"] or {}).get("image")
        )
        for each in items
    }  # fmt: skip


async def test_a_tenant_sees_what_its_runs_really_used_and_no_other_s(gateway: FakeGateway) -> None:
    run_id = await make(gateway)
    run = await ended(gateway, run_id)
    counts = run["request_counts"]
    assert isinstance(counts, dict)
    used = (await gateway.http.get("/v1/usage")).json()
    assert used["images"] == counts["done"] + counts["filtered"] > 0
    items = (await gateway.http.get(f"/v1/runs/{run_id}/items?limit=1000")).json()["items"]
    spent = [each["result"]["cost"]["seconds"] for each in items if each["result"]]
    assert sum(spent) > 0
    assert used["gpu_seconds"] == pytest.approx(sum(spent))
    assert (used["tenant"], used["month"], used["images_quota"]) == (ACME, "2026-11", None)
    assert used["renews_at"] == "2026-12-01T00:00:00Z"
    _, other = new_access_key(gateway.ledger)
    own = await gateway.http.get("/v1/usage", headers={"authorization": f"Bearer {other}"})
    assert (own.json()["tenant"], own.json()["images"]) == ("default", 0)
    # Deleting a run takes nothing back.
    assert (await gateway.http.delete(f"/v1/runs/{run_id}")).status_code == 204
    assert (await gateway.http.get("/v1/usage")).json()["images"] == used["images"]


@pytest.mark.fault("B39")
async def test_a_quota_is_checked_before_everything_else_and_named_with_its_figures(
    gateway: FakeGateway,
) -> None:
    ledger = gateway.ledger
    ledger.access.set_quota(ACME, Quota(images=3))
    found = problem(await gateway.http.post(RUNS, json=BODY), 429, "quota-exceeded")
    assert "'acme' has used 0 of 3 images this month, and this run asks for up to " in str(found.detail)
    assert found.retryable is False
    ledger.access.set_quota(ACME, Quota(images=0))
    for body in (BODY, BODY | {"seed": -1}, BODY | {"dataset": "none"}, {}, {"limit": 10**9}):
        for key in ({}, {"idempotency-key": "mine"}):
            found = problem(await gateway.http.post(RUNS, json=body, headers=key), 429, "quota-exceeded")
            assert "0 of 0 images" in str(found.detail)
            assert "renews on 2026-12-01 UTC" in str(found.detail)
    ledger.access.set_quota(ACME, Quota(gpu_seconds=0.0))
    found = problem(await gateway.http.post(RUNS, json=BODY), 429, "quota-exceeded")
    assert "0 of 0 GPU-seconds" in str(found.detail)
    # Others have none of it, and a run that a key made is answered.
    ledger.access.set_quota(ACME, Quota())
    key = {"idempotency-key": "again"}
    made = (await gateway.http.post(RUNS, json=BODY, headers=key)).json()
    ledger.access.set_quota(ACME, Quota(images=0))
    assert (await gateway.http.post(RUNS, json=BODY, headers=key)).json()["id"] == made["id"]


async def test_images_that_are_made_without_a_run_count_and_are_refused_alike(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, ports=benchmark_services) as gateway:
        interface = await uploaded(gateway, 2)
        asked = {"class_name": CLASSES[0], "shift": "in the snow", "n": 3, "seed": 1, "by_name": True}
        generate = f"/v1/runs/{interface}/generate"
        before = gateway.ledger.access.usage().images
        made = await gateway.http.post(generate, json=asked)
        assert made.status_code == 200, made.text
        assert gateway.ledger.access.usage().images == before + 3
        gateway.ledger.access.set_quota("default", Quota(images=before + 5))
        found = problem(await gateway.http.post(generate, json=asked), 429, "quota-exceeded")
        assert "asks for up to 3 more" in str(found.detail)


@pytest.mark.parametrize("kind", ["images", "gpu_seconds"])
async def test_a_quota_that_runs_out_ends_the_run_with_all_that_is_done_and_resume_goes_on(
    gateway: FakeGateway, clock: Clock, kind: str
) -> None:
    whole = await states(gateway, undisturbed := await make(gateway, seed=3))
    assert (await ended(gateway, undisturbed))["state"] == "completed"
    whole = await states(gateway, undisturbed)
    used = gateway.ledger.of(ACME).access.usage()
    run_id = await make(gateway, seed=3)
    # Half of what the run takes, set while it waits.
    most = {"images": round(used.images * 1.5), "gpu_seconds": used.gpu_seconds * 1.5}
    gateway.ledger.access.set_quota(ACME, Quota(**{kind: most[kind]}))  # type: ignore[arg-type]  # one of both
    run = await ended(gateway, run_id)
    counts = run["request_counts"]
    assert isinstance(counts, dict)
    assert (run["state"], run["problem"]["code"]) == ("failed", "quota-exceeded")  # type: ignore[index]  # JSON
    assert counts["cancelled"] > 0
    assert counts["done"] > 0
    assert counts["failed"] == counts["pending"] == 0
    assert violated(gateway.ledger, run_id) == []
    assert violated_totals(gateway.ledger) == []
    kept = {key for key, (state, _) in (await states(gateway, run_id)).items() if state != "cancelled"}

    problem(await gateway.http.post(f"/v1/runs/{run_id}/resume"), 429, "quota-exceeded")
    assert (await gateway.http.get(f"/v1/runs/{run_id}")).json()["state"] == "failed"
    spent = gateway.ledger.of(ACME).access.usage().images
    clock.now += 25 * 24 * HOUR
    assert (await gateway.http.post(f"/v1/runs/{run_id}/resume")).status_code == 200
    assert (await ended(gateway, run_id))["state"] == "completed"
    assert await states(gateway, run_id) == whole
    assert violated(gateway.ledger, run_id) == []
    # Nothing was done twice.
    after = gateway.ledger.of(ACME).access.usage()
    assert (after.month, after.images) == ("2026-12", len(whole) - len(kept))
    assert spent == used.images + len(kept)


async def test_what_is_being_worked_on_is_recorded_before_the_run_ends(
    gateway: FakeGateway, clock: Clock
) -> None:
    run_id = await make(gateway)
    ledger = gateway.ledger
    leased = ledger.items.lease("worker", seconds=30)
    assert leased is not None
    ledger.access.set_quota(ACME, Quota(images=0))
    clock.now += 1
    assert ledger.items.lease_many("another", seconds=30, most=5) == []
    assert ledger.runs.get(run_id).state == "in_progress"
    assert len(ledger.items.renew(leased, 30)) == len(leased.items)
    ledger.items.release(leased)
    clock.now += 3
    assert ledger.items.lease_many("another", seconds=30, most=5) == []
    assert ledger.runs.get(run_id).state == "failed"


async def test_a_clock_set_back_over_the_end_of_a_month_renews_nothing_twice(
    gateway: FakeGateway, clock: Clock
) -> None:
    clock.now = MONTH_END
    usage = gateway.ledger.of(ACME).access.usage
    await ended(gateway, await make(gateway))
    november = usage().images
    gateway.ledger.access.set_quota(ACME, Quota(images=november))
    problem(await gateway.http.post(RUNS, json=BODY), 429, "quota-exceeded")
    clock.now += HOUR
    assert usage().images == 0
    await ended(gateway, await make(gateway))
    assert usage().images == november
    for step in (-HOUR, HOUR, -HOUR, HOUR):
        clock.now += step
        assert usage().images == november, usage().month
        problem(await gateway.http.post(RUNS, json=BODY), 429, "quota-exceeded")


def test_the_operator_sets_and_lists_quotas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))
    assert main(["quotas", "set", "acme", "--images", "100000", "--gpu-seconds", "36000"]) == 0
    assert "acme" in capsys.readouterr().out
    assert main(["quotas", "set", "beta", "--images", "5"]) == 0
    assert "0 of 5 images  0 of any GPU-seconds" in capsys.readouterr().out
    assert main(["quotas", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["tenant"], each["images_quota"], each["gpu_seconds_quota"]) for each in told] == [
        ("acme", 100_000, 36_000), ("beta", 5, None),
    ]  # fmt: skip
    assert main(["quotas", "set", "acme"]) == 0
    capsys.readouterr()
    assert main(["quotas", "list", "--json"]) == 0
    assert [each["tenant"] for each in json.loads(capsys.readouterr().out)] == ["beta"]
    for wrong in (["acme", "--images", "-1"], ["ACME", "--images", "1"]):
        assert main(["quotas", "set", *wrong]) == 2
