"""Quotas of tenants: checked before a run, held during it, counted exactly, and renewed once a month."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from counterpose_core.contract.editor import GenerateRequest, GenerateResponse
from counterpose_core.contract.usage import Usage
from counterpose_core.errors import BackendUnavailable
from counterpose_core.types import Cost
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.main import main
from counterpose_gateway.records.tenants import Quota
from counterpose_gateway.services.ports import Services
from fakes import ports
from fakes.access_keys import new_access_key
from fakes.benchmarks import TokenEditor, benchmark_services, uploaded
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated, violated_totals
from fakes.ledgers import Clock
from fakes.problems import problem
from fakes.world import CLASSES, FakeWorld

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


class SlowEditor(TokenEditor):
    """Draws when it is let, and says that each call took some seconds of a GPU."""

    def __init__(self, world: FakeWorld, seconds: float) -> None:
        super().__init__(world)
        self.begun, self.may_draw, self.fails, self._cost = 0, asyncio.Event(), False, Cost(seconds=seconds)

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Wait, then draw or fail."""
        self.begun += 1
        await self.may_draw.wait()
        if self.fails:
            raise BackendUnavailable("the editor has gone")
        return (await super().generate(request)).model_copy(update={"cost": self._cost})


@dataclass
class Drawing:
    """Two gateways on one ledger, whose editor waits."""

    one: FakeGateway
    other: FakeGateway
    editor: SlowEditor
    path: str

    async def ask(self, requests: int, images: int) -> list[asyncio.Task[int]]:
        """Begin so many requests in turn at the two gateways; return when all are answered or wait."""
        tasks = [
            asyncio.create_task(self._asked(gateway, images, seed))
            for seed, gateway in zip(range(requests), itertools.cycle((self.one, self.other)))
        ]
        while self.editor.begun + sum(task.done() for task in tasks) < requests:  # noqa: ASYNC110  # many tell
            await asyncio.sleep(0.02)
        return tasks

    async def _asked(self, gateway: FakeGateway, images: int, seed: int) -> int:
        asked = {"class_name": CLASSES[0], "n": images, "seed": seed, "by_name": True}
        return (await gateway.http.post(self.path, json=asked)).status_code

    def usage(self) -> Usage:
        return self.one.ledger.access.usage()


@pytest.fixture
async def drawing(tmp_path: Path, clock: Clock) -> AsyncIterator[Drawing]:
    """Two gateways whose editor takes 4 GPU-seconds a call."""
    editors: list[SlowEditor] = []

    def slow(world: FakeWorld) -> Services:
        editors.append(SlowEditor(world, 4.0))
        return benchmark_services(world, editor=editors[0])

    async with fake_gateway(tmp_path, clock, ports=slow, call_seconds=60.0) as one:
        interface = await uploaded(one, 2)
        ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}", clock=clock)
        async with fake_gateway(tmp_path, clock, ports=slow, call_seconds=60.0, ledger=ledger) as other:
            yield Drawing(one, other, editors[0], f"/v1/runs/{interface}/generate")


@pytest.mark.fault("B39")
@pytest.mark.parametrize(
    ("most", "images", "served", "used"),
    [
        (Quota(images=10), 8, 1, (8, 4.0)),
        (Quota(images=12), 3, 4, (12, 16.0)),
        # A call may take 60 s: what is left is one's, whatever it will take.
        (Quota(gpu_seconds=1.0), 1, 1, (1, 4.0)),
        (Quota(gpu_seconds=130.0), 1, 3, (3, 12.0)),
        (Quota(images=100, gpu_seconds=61.0), 2, 2, (4, 8.0)),
        (Quota(), 1, 12, (12, 48.0)),
    ],
    ids=["images", "images to the last", "a second", "some seconds", "both", "no quota"],
)
async def test_requests_at_once_overdraw_a_quota_by_one_of_them_at_most(
    drawing: Drawing, most: Quota, images: int, served: int, used: tuple[int, float]
) -> None:
    before = drawing.usage()
    bound = Quota(
        None if most.images is None else before.images + most.images,
        None if most.gpu_seconds is None else before.gpu_seconds + most.gpu_seconds,
    )
    drawing.one.ledger.access.set_quota("default", bound)
    asked = await drawing.ask(12, images)
    # What is claimed is not told as used.
    assert drawing.usage().images == before.images
    drawing.editor.may_draw.set()
    assert sorted(await asyncio.gather(*asked)) == [200] * served + [429] * (12 - served)
    after = drawing.usage()
    assert (after.images - before.images, after.gpu_seconds - before.gpu_seconds) == pytest.approx(used)


async def test_what_a_request_claimed_and_did_not_use_is_there_again(drawing: Drawing, clock: Clock) -> None:
    access = drawing.one.ledger.access
    access.set_quota("default", Quota(images=drawing.usage().images + 4, gpu_seconds=1e6))
    editor = drawing.editor
    editor.may_draw.set()
    for failing in (True, False):
        editor.fails, editor.begun = failing, 0
        assert await asyncio.gather(*await drawing.ask(1, 4)) == [503 if failing else 200]
    access.set_quota("default", Quota(images=drawing.usage().images + 4))
    # A gateway that was killed settles nothing; its claim ends when its call would have.
    editor.may_draw.clear()
    editor.begun, claimed = 0, access.claim(4, 60.0)
    assert await asyncio.gather(*await drawing.ask(1, 4)) == [429]
    clock.now += 61
    editor.may_draw.set()
    assert await asyncio.gather(*await drawing.ask(1, 4)) == [200]
    assert claimed


async def test_a_request_that_goes_over_the_end_of_a_month_counts_to_the_next(
    drawing: Drawing, clock: Clock
) -> None:
    clock.now = MONTH_END
    drawing.one.ledger.access.set_quota("default", Quota(images=drawing.usage().images + 5))
    asked = await drawing.ask(2, 5)
    clock.now += HOUR
    drawing.editor.may_draw.set()
    assert sorted(await asyncio.gather(*asked)) == [200, 429]
    assert (drawing.usage().month, drawing.usage().images) == ("2026-12", 5)


async def test_what_requests_claim_ends_no_run(drawing: Drawing) -> None:
    ledger = drawing.one.ledger
    ledger.access.set_quota("default", Quota(gpu_seconds=drawing.usage().gpu_seconds + 50.0))
    asked = await drawing.ask(1, 1)
    refused = ledger.access.allowance().refusal()
    drawing.editor.may_draw.set()
    assert (refused, await asyncio.gather(*asked)) == (None, [200])


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
