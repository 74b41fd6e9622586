"""The HTTP API over a real ledger and fake services, without a socket."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from starlette.types import Message

from counterpose_core.contract.runs import Item, Run, RunEvent
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.progress import following
from counterpose_gateway.progress.following import FollowedRuns, event_response, first_event_id
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated

ROOT = "/v1/stress-tests"
BODY = {"dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background"], "seed": 3}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path) as opened:
        yield opened


@dataclass(frozen=True)
class Finished:
    """A gateway with a run that has ended; tests that only read it share it."""

    gateway: FakeGateway
    run: Run

    async def get(self, path: str = "", **options: Any) -> httpx.Response:
        """Get a resource of the run."""
        return await self.gateway.http.get(f"/v1/runs/{self.run.id}{path}", **options)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def finished(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Finished]:
    async with fake_gateway(tmp_path_factory.mktemp("finished")) as opened:
        await opened.upload("demo", 1)
        run = await created(opened)
        await opened.worker().work_off()
        yield Finished(opened, run)


async def created(gateway: FakeGateway, key: str | None = None, **changes: Any) -> Run:
    headers = {} if key is None else {"idempotency-key": key}
    answer = await gateway.http.post(ROOT, json=BODY | changes, headers=headers)
    assert answer.status_code == 202, answer.text
    return Run.model_validate_json(answer.content)


async def test_a_stress_test_is_durable_when_202_is_answered(gateway: FakeGateway) -> None:
    assert await gateway.upload("demo", 2) == {"added": 8, "rejected": []}
    answer = await gateway.http.post(ROOT, json=BODY)
    run = Run.model_validate_json(answer.content)
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/runs/{run.id}"
    assert answer.headers["retry-after"].isdigit()
    assert run.state == "queued"
    assert run.request_counts.pending == run.request_counts.total == 8 * (5 + 3)
    assert gateway.ledger.runs.get(run.id) == run
    assert (await gateway.http.get(answer.headers["location"])).json() == answer.json()


async def test_a_run_goes_from_upload_to_summary_and_report(finished: Finished) -> None:
    answer = await finished.get()
    found = Run.model_validate_json(answer.content)
    assert found.state == "completed"
    assert found.request_counts.pending == 0
    figures = await finished.get("/summary")
    summary = StressTestSummary.model_validate_json(figures.content)
    assert set(summary.models) == {"steady", "leaning"}
    assert figures.json()["yield"] is not None
    report = await finished.get("/report")
    assert report.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in report.headers["content-security-policy"]
    assert "leaning" in report.text


async def test_the_first_screen_of_a_report_shows_its_images_and_no_script(finished: Finished) -> None:
    whole = (await finished.get("/report")).text
    shown = await finished.get("/report", params={"part": "first-screen"})
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    for kept in ('id="verdict"', 'id="models"', "</html>"):
        assert kept in shown.text
    for gone in ("<script", 'id="gallery"', 'id="reproduce"'):
        assert gone in whole
        assert gone not in shown.text
    used = set(re.findall(r'href="#(im\d+)"', shown.text))
    held = set(re.findall(r'<symbol id="([^"]+)"', shown.text))
    assert held
    assert held == used
    assert len(shown.text) < len(whole) / 2
    refused = await finished.get("/report", params={"part": "last-screen"})
    assert refused.json()["code"] == "invalid-request"


@pytest.mark.fault("B24")
async def test_one_image_under_two_names_is_planned_twice(gateway: FakeGateway) -> None:
    await gateway.http.post("/v1/datasets", json={"name": "demo"})
    sources = [gateway.source("sled", 0) | {"filename": name} for name in ("a.png", "b.png")]
    sources.append(gateway.source("boat", 1))
    await gateway.http.post("/v1/datasets/demo/sources", json={"sources": sources})
    run = await created(gateway)
    assert run.request_counts.total == 3 * (5 + 3)
    assert violated(gateway.ledger, run.id) == []


@pytest.mark.fault("F15")
async def test_fifty_equal_posts_under_one_key_make_one_run(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 1)
    runs = await asyncio.gather(*(created(gateway, key="once") for _ in range(50)))
    assert len({run.id for run in runs}) == 1
    assert len(gateway.ledger.runs.page().runs) == 1


@pytest.mark.fault("F16")
async def test_a_key_reused_with_another_body_is_refused_and_changes_nothing(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 1)
    run = await created(gateway, key="once")
    answer = await gateway.http.post(ROOT, json=BODY | {"seed": 4}, headers={"idempotency-key": "once"})
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency-conflict")
    assert gateway.ledger.runs.get(run.id) == run


@pytest.mark.fault("B54")
@pytest.mark.parametrize("key", ["", "x" * 256, "with space", "line\nbreak".replace("\n", "\t")])
async def test_an_invalid_key_is_refused(gateway: FakeGateway, key: str) -> None:
    answer = await gateway.http.post(ROOT, json=BODY, headers={"idempotency-key": key})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")


async def test_an_upload_repeated_with_one_key_is_done_once(gateway: FakeGateway) -> None:
    await gateway.http.post("/v1/datasets", json={"name": "demo"})
    body = {"sources": [gateway.source("sled", 0)]}
    headers = {"idempotency-key": "upload"}
    answers = [await gateway.http.post("/v1/datasets/demo/sources", json=body, headers=headers) for _ in "12"]
    assert [answer.json() for answer in answers] == [{"added": 1, "rejected": []}] * 2
    assert (await gateway.http.get("/v1/datasets/demo")).json()["n_sources"] == 1


async def test_a_failure_is_not_stored_under_its_key(gateway: FakeGateway) -> None:
    body, headers = {"sources": [gateway.source("sled", 0)]}, {"idempotency-key": "upload"}
    early = await gateway.http.post("/v1/datasets/demo/sources", json=body, headers=headers)
    assert (early.status_code, early.json()["code"]) == (404, "unknown-dataset")
    await gateway.http.post("/v1/datasets", json={"name": "demo"})
    again = await gateway.http.post("/v1/datasets/demo/sources", json=body, headers=headers)
    assert again.json() == {"added": 1, "rejected": []}


async def test_runs_can_be_cancelled_and_resumed(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 1)
    run = await created(gateway)
    cancelled = await gateway.http.post(f"/v1/runs/{run.id}/cancel")
    assert cancelled.json()["state"] == "cancelled"
    again = await gateway.http.post(f"/v1/runs/{run.id}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "run-not-cancellable")
    resumed = await gateway.http.post(f"/v1/runs/{run.id}/resume")
    assert resumed.json()["state"] == "queued"
    await gateway.worker().work_off()
    refused = await gateway.http.post(f"/v1/runs/{run.id}/resume")
    assert (refused.status_code, refused.json()["code"]) == (409, "run-not-resumable")


async def test_waiting_returns_at_once_if_the_run_has_ended(finished: Finished) -> None:
    answer = await finished.get("/wait", params={"timeout": 60})
    assert answer.json()["state"] == "completed"


async def test_waiting_ends_at_its_timeout(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 1)
    run = await created(gateway)
    answer = await gateway.http.get(f"/v1/runs/{run.id}/wait", params={"timeout": 0.01})
    assert answer.json()["state"] == "queued"


async def test_waiting_returns_when_the_run_ends(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.01)
    await gateway.upload("demo", 1)
    run = await created(gateway)
    waiting = asyncio.create_task(gateway.http.get(f"/v1/runs/{run.id}/wait", params={"timeout": 30}))
    gateway.ledger.runs.cancel(run.id)
    assert (await waiting).json()["state"] == "cancelled"


def frames(text: str) -> list[RunEvent]:
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [RunEvent.model_validate_json(line) for line in data]


async def test_events_start_after_the_last_one_seen_and_end_with_the_run(finished: Finished) -> None:
    first = finished.gateway.ledger.events.page(finished.run.id, after=0)[0]
    answer = await finished.get("/events", headers={"last-event-id": str(first.id)})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert frames(answer.text) == finished.gateway.ledger.events.page(finished.run.id, after=first.id)
    assert frames(answer.text)[-1].state == "completed"


async def test_events_for_a_new_client_start_with_the_current_state(finished: Finished) -> None:
    answer = await finished.get("/events")
    assert frames(answer.text) == [finished.gateway.ledger.events.last(finished.run.id)]


@pytest.mark.fault("B55")
async def test_a_last_event_id_from_the_future_does_not_hide_the_end(finished: Finished) -> None:
    answer = await finished.get("/events", headers={"last-event-id": "999999"})
    assert (answer.status_code, frames(answer.text)) == (200, [])
    newest = finished.gateway.ledger.events.last(finished.run.id).id
    followed = FollowedRuns(finished.gateway.ledger.events)
    assert await first_event_id(followed, finished.run.id, 999999) == newest


async def test_a_silent_stream_sends_heartbeats_until_the_next_event(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.01)
    await gateway.upload("demo", 1)
    run = await created(gateway)
    sent: list[str] = []

    async def send(message: Message) -> None:
        sent.append(message.get("body", b"").decode())
        if sent.count(": heartbeat\r\n\r\n") == 2 and gateway.ledger.runs.get(run.id).state == "queued":
            gateway.ledger.runs.cancel(run.id)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    newest = gateway.ledger.events.last(run.id).id
    await event_response(FollowedRuns(gateway.ledger.events), run.id, after=newest)(
        {"type": "http", "method": "GET"}, receive, send
    )
    assert [event.state for event in frames("".join(sent))] == ["cancelled"]


async def test_event_ids_only_increase(finished: Finished) -> None:
    answer = await finished.get("/events", headers={"last-event-id": "0"})
    ids = [int(line.removeprefix("id: ")) for line in answer.text.splitlines() if line.startswith("id: ")]
    assert ids == [event.id for event in frames(answer.text)]
    assert ids == sorted(set(ids))
    assert len(ids) > finished.run.request_counts.total


@pytest.mark.fault("B55")
@pytest.mark.parametrize("given", ["-1", "x", "1.5", ""])
async def test_a_non_numeric_last_event_id_is_refused(finished: Finished, given: str) -> None:
    answer = await finished.get("/events", headers={"last-event-id": given})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")


async def test_items_are_paginated_by_cursor(finished: Finished) -> None:
    seen: list[Item] = []
    after: str | None = None
    while True:
        query = "" if after is None else f"&after={after}"
        page = (await finished.get(f"/items?limit=5{query}")).json()
        seen += [Item.model_validate(item) for item in page["items"]]
        after = page["after"]
        if after is None:
            break
    assert [item.ordinal for item in seen] == list(range(finished.run.request_counts.total))
    assert all(item.result is not None for item in seen if item.state == "done")


async def test_results_are_lines_that_end_with_a_checksum(finished: Finished) -> None:
    answer = await finished.get("/results")
    *lines, trailer = answer.text.splitlines(keepends=True)
    found = json.loads(trailer)
    assert found["sha256"] == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert (found["lines"], found["complete"]) == (finished.run.request_counts.total, True)
    rest = await finished.get("/results", params={"from": 3})
    assert rest.text.splitlines(keepends=True)[:-1] == lines[3:]


async def test_results_of_an_active_run_are_marked_incomplete(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 1)
    run = await created(gateway)
    answer = await gateway.http.get(f"/v1/runs/{run.id}/results")
    assert json.loads(answer.text) == {
        "lines": 0, "sha256": hashlib.sha256().hexdigest(), "complete": False,
    }  # fmt: skip


async def test_polling_an_unchanged_run_returns_304(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 1)
    run = await created(gateway)
    url = f"/v1/runs/{run.id}"
    tag = (await gateway.http.get(url)).headers["etag"]
    assert (await gateway.http.get(url, headers={"if-none-match": f'"other", W/{tag}'})).status_code == 304
    gateway.ledger.runs.cancel(run.id)
    assert (await gateway.http.get(url, headers={"if-none-match": tag})).status_code == 200


async def test_runs_are_listed_newest_first(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 1)
    runs = [await created(gateway, seed=seed) for seed in range(3)]
    page = (await gateway.http.get("/v1/runs", params={"limit": 2})).json()
    assert [run["id"] for run in page["runs"]] == [runs[2].id, runs[1].id]
    rest = (await gateway.http.get("/v1/runs", params={"limit": 2, "after": page["after"]})).json()
    assert [run["id"] for run in rest["runs"]] == [runs[0].id]


@pytest.mark.fault("B62")
@pytest.mark.parametrize("data", [b"a caption", b"FLRAW1"])
async def test_an_artifact_that_is_not_an_image_is_not_served(gateway: FakeGateway, data: bytes) -> None:
    answer = await gateway.http.get(f"/v1/artifacts/{gateway.store.put(data)}.png")
    assert (answer.status_code, answer.json()["code"]) == (404, "artifact-missing")


async def test_datasets_are_described_and_listed(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 1)
    dataset = (await gateway.http.get("/v1/datasets/demo")).json()
    assert (dataset["n_sources"], dataset["classes"]) == (4, ["boat", "kite", "plate", "sled"])
    assert (await gateway.http.get("/v1/datasets")).json() == {"datasets": [dataset]}


async def test_recreating_a_dataset_is_harmless_unless_its_classes_differ(
    gateway: FakeGateway,
) -> None:
    first = await gateway.http.post("/v1/datasets", json={"name": "demo", "classes": ["sled", "boat"]})
    again = await gateway.http.post("/v1/datasets", json={"name": "demo", "classes": ["sled", "boat"]})
    assert (first.status_code, first.json()) == (201, again.json())
    other = await gateway.http.post("/v1/datasets", json={"name": "demo", "classes": ["sled"]})
    assert (other.status_code, other.json()["errors"][0]["pointer"]) == (422, "/name")


async def test_services_and_readiness_agree(gateway: FakeGateway) -> None:
    assert (await gateway.http.get("/readyz")).json()["status"] == "ready"
    gateway.health.down.add("editor")
    answer = await gateway.http.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "backend-unavailable")
    assert "editor" in answer.json()["detail"]
    services = (await gateway.http.get("/v1/services")).json()["services"]
    assert [found["service"] for found in services if not found["ready"]] == ["editor"]
    assert (await gateway.http.get("/healthz")).json()["status"] == "ok"


async def test_the_gateway_lists_the_service_s_classifiers(gateway: FakeGateway) -> None:
    found = (await gateway.http.get("/v1/classifiers")).json()["classifiers"]
    assert [one["name"] for one in found] == ["steady", "leaning"]


async def test_metrics_count_routes_not_ids(gateway: FakeGateway) -> None:
    await gateway.upload("demo", 1)
    run = await created(gateway)
    await gateway.http.get(f"/v1/runs/{run.id}")
    text = (await gateway.http.get("/metrics")).text
    assert 'route="/v1/runs/{run_id}",status="200"} 1.0' in text
    assert "counterpose_active_runs 1.0" in text
    assert run.id not in text


async def test_metrics_and_summary_report_equal_costs(finished: Finished) -> None:
    cost = StressTestSummary.model_validate_json((await finished.get("/summary")).content).cost
    text = (await finished.gateway.http.get("/metrics")).text
    # Large numbers are written with an exponent: read, not compared as text.
    told = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert cost.unet_evaluations > 0
    for name in ("unet_evaluations", "unet_calls", "clip_passes", "flops"):
        assert float(told[f"counterpose_cost_{name}_total"]) == float(getattr(cost, name))


async def test_the_summary_is_made_again_only_after_the_run_changes(finished: Finished) -> None:
    summaries = [(await finished.get("/summary")).json() for _ in "12"]
    assert summaries[0] == summaries[1]


def pointers(answer: httpx.Response) -> set[str]:
    return {error["pointer"] for error in answer.json()["errors"]}


async def test_every_invalid_field_has_a_pointer(gateway: FakeGateway) -> None:
    body = BODY | {"seed": -1, "max_edits_per_image": 0, "surprise": True}
    answer = await gateway.http.post(ROOT, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    assert pointers(answer) == {"/seed", "/max_edits_per_image", "/surprise"}
