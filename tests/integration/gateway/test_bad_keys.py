"""API keys, cursors, idempotency keys and event numbers that are wrong, and verbs that come too late."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from counterpose_core.contract.base import Problem
from fakes.benchmarks import benchmark_body, benchmark_services, uploaded
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledgers import config, planned_items
from fakes.openapi_document import document, kind_of, parameters_of
from fakes.problems import problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = "/v1/stress-tests"
BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3}
KEY, REVOKED = "the-one-key-of-this-gateway", "a-key-that-was-taken-back"
DOCUMENT = document()
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
KEYED = [
    (method, path)
    for method, path, operation in OPERATIONS
    if any(each["name"] == "idempotency-key" for each in parameters_of(operation))
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    """A gateway with an ended run of every kind but the interface's own learning."""
    async with fake_gateway(tmp_path_factory.mktemp("gateway"), ports=benchmark_services) as opened:
        interface = await uploaded(opened, 2)
        body = benchmark_body(interface, n=1, real=2, steps=20)
        assert (await opened.http.post("/v1/shift-benchmarks", json=body)).status_code == 202
        for seed in (1, 2):
            assert (await opened.http.post(ROOT, json=BODY | {"seed": seed})).status_code == 202
        await opened.worker().work_off()
        yield opened


async def ended(gateway: FakeGateway) -> str:
    """The id of an ended stress test."""
    query = {"kind": "stress-test", "state": "completed", "limit": "1"}
    return str((await gateway.http.get("/v1/runs", params=query)).json()["runs"][0]["id"])


GARBLED: dict[str, list[tuple[bytes, bytes]]] = {
    "no key": [],
    "an empty header": [(b"authorization", b"")],
    "a scheme alone": [(b"authorization", b"Bearer ")],
    "another key": [(b"authorization", b"Bearer another-key-of-that-length")],
    "a revoked key": [(b"authorization", b"Bearer " + REVOKED.encode())],
    "the beginning of a key": [(b"authorization", b"Bearer " + KEY[:-1].encode())],
    "a longer key": [(b"authorization", b"Bearer " + KEY.encode() + b"x")],
    "another case": [(b"authorization", b"Bearer " + KEY.upper().encode())],
    "another scheme": [(b"authorization", b"Basic " + base64.b64encode(KEY.encode()))],
    "a key without a scheme": [(b"authorization", KEY.encode())],
    "letters beyond ASCII": [(b"authorization", "Bearer clé".encode())],
    "bytes that are no text": [(b"authorization", b"Bearer \xff\xfe\x80")],
    "a long key": [(b"authorization", b"Bearer " + b"k" * 20_000)],
    "a wrong key before the right one": [
        (b"authorization", b"Bearer no"),
        (b"authorization", b"Bearer " + KEY.encode()),
    ],
    "a key in other headers": [(b"x-api-key", KEY.encode()), (b"cookie", b"key=" + KEY.encode())],
    "the secret's header": [(b"x-counterpose-secret", KEY.encode())],
}


@pytest.mark.fault("B52", "T5")
async def test_no_operation_but_health_answers_a_wrong_key(tmp_path: Path) -> None:
    # A thousand wrong keys from one address would be refused as too many.
    async with fake_gateway(tmp_path, api_keys=[KEY], refused_keys_per_minute=0) as gateway:
        for method, path, _ in OPERATIONS:
            for kind, given in GARBLED.items():
                answer = await gateway.http.request(method, path, headers=given)
                if path in ("/healthz", "/readyz"):
                    assert answer.status_code == 200
                else:
                    found = problem(answer, 401, "unauthorized")
                    assert KEY not in answer.text, (kind, path)
                    assert found.retryable is False


@pytest.mark.fault("B52")
async def test_a_key_taken_from_the_settings_is_refused_and_the_others_stay(tmp_path: Path) -> None:
    good, gone = ({"authorization": f"Bearer {key}"} for key in (KEY, REVOKED))
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    async with fake_gateway(tmp_path / "before", api_keys=[KEY, REVOKED]) as gateway:
        for headers in (good, gone):
            assert (await gateway.http.get("/v1/datasets", headers=headers)).status_code == 200
    async with fake_gateway(tmp_path / "after", api_keys=[KEY]) as gateway:
        assert (await gateway.http.get("/v1/datasets", headers=good)).status_code == 200
        problem(await gateway.http.get("/v1/datasets", headers=gone), 401, "unauthorized")


def packed(*position: Any) -> str:
    """A cursor that the gateway did not make."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


CURSORS = {
    "no cursor": "",
    "no Base64": "!!!",
    "Base64 of no JSON": "AAAA",
    "an object": base64.urlsafe_b64encode(b"{}").decode().rstrip("="),
    "nothing packed": packed(),
    "a number alone": packed(1),
    "three parts": packed(1.0, "x", 2),
    "another's run": packed("elsewhere", 3),
    "an ordinal in words": packed("elsewhere", "3"),
    "an ordinal beyond every database": packed("elsewhere", 2**70),
    "a time that is not finite": base64.urlsafe_b64encode(b'[Infinity, "x"]').decode().rstrip("="),
    "a time that is no number": packed(True, "x"),
    "arrays nested deep": base64.urlsafe_b64encode(b"[" * 300).decode().rstrip("="),
    "letters beyond ASCII": "é" * 20,
    "a NUL": "\x00",
    "513 letters": "A" * 513,
}


@pytest.mark.fault("B53")
@pytest.mark.parametrize("kind", CURSORS)
async def test_an_altered_cursor_is_refused_by_every_listing(gateway: FakeGateway, kind: str) -> None:
    run_id = await ended(gateway)
    for path in ("/v1/runs", f"/v1/runs/{run_id}/items"):
        answer = await gateway.http.get(path, params={"after": CURSORS[kind]})
        problem(answer, 422, "invalid-request")


@pytest.mark.fault("B53")
async def test_a_cursor_belongs_to_its_listing_alone(gateway: FakeGateway) -> None:
    first, second = (run["id"] for run in (await gateway.http.get("/v1/runs?limit=2")).json()["runs"])
    of_items = (await gateway.http.get(f"/v1/runs/{first}/items?limit=1")).json()["after"]
    of_runs = (await gateway.http.get("/v1/runs?limit=1")).json()["after"]
    for path, cursor in (
        (f"/v1/runs/{second}/items", of_items),
        ("/v1/runs", of_items),
        (f"/v1/runs/{first}/items", of_runs),
    ):
        answer = await gateway.http.get(path, params={"after": cursor})
        found = problem(answer, 422, "invalid-request")
        assert found.errors[0].pointer == "/after"


@pytest.mark.fault("B53", "B59")
async def test_a_cursor_outlives_the_run_that_it_stands_at(gateway: FakeGateway) -> None:
    made = (await gateway.http.post(ROOT, json=BODY | {"seed": 9})).json()["id"]
    await gateway.worker().work_off()
    cursor = (await gateway.http.get("/v1/runs?limit=1")).json()["after"]
    of_items = (await gateway.http.get(f"/v1/runs/{made}/items?limit=1")).json()["after"]
    rest = (await gateway.http.get("/v1/runs", params={"after": cursor})).json()["runs"]
    assert (await gateway.http.delete(f"/v1/runs/{made}")).status_code == 204
    assert (await gateway.http.get("/v1/runs", params={"after": cursor})).json()["runs"] == rest
    answer = await gateway.http.get(f"/v1/runs/{made}/items", params={"after": of_items})
    problem(answer, 404, "not-found")


BAD_KEYS = [
    "",
    " ",
    "x" * 256,
    "x" * 9000,
    "with space",
    "tab\there",
    "line\nbreak",
    "return\rhere",
    "nul\0",
    "clé",
]


@pytest.mark.fault("B54")
@pytest.mark.parametrize("key", BAD_KEYS, ids=[repr(key[:12]) for key in BAD_KEYS])
async def test_every_operation_refuses_an_idempotency_key_that_is_none(
    gateway: FakeGateway, key: str
) -> None:
    assert len(KEYED) >= 6
    hunt = gateway.ledger.runs.create(
        kind="bug-hunt", dataset="", config=config(), items=planned_items(1, 1), fingerprint="e" * 64
    ).id  # fmt: skip
    names = {"number": "1", "name": "demo"}
    before = gateway.ledger.runs.page()
    for method, path in KEYED:
        given = [(b"idempotency-key", key.encode()), (b"content-type", b"application/json")]
        # A run of another kind is not found, whatever the key.
        run_id = hunt if kind_of(path) == "bug-hunt" else await ended(gateway)
        address = path.format(run_id=run_id, **names)
        answer = await gateway.http.request(method, address, content=b"{}", headers=given)
        assert answer.status_code == 422, path
        found = Problem.model_validate_json(answer.content)
        assert "/idempotency-key" in [each.pointer for each in found.errors], path
    assert gateway.ledger.runs.page() == before
    gateway.ledger.runs.cancel(hunt)
    gateway.ledger.runs.delete(hunt)


@pytest.mark.fault("B54")
async def test_the_longest_idempotency_key_is_taken(gateway: FakeGateway) -> None:
    answer = await gateway.http.post(ROOT, json=BODY | {"seed": 77}, headers={"idempotency-key": "~" * 255})
    assert answer.status_code == 202
    await gateway.http.post(f"/v1/runs/{answer.json()['id']}/cancel")


@pytest.mark.fault("B55")
@pytest.mark.parametrize("number", [2**31, 2**53, 2**63 - 1, 2**63, 10**40])
async def test_an_event_number_from_the_future_ends_with_the_run(gateway: FakeGateway, number: int) -> None:
    run_id = await ended(gateway)
    headers = {"last-event-id": str(number)}
    answer = await gateway.http.get(f"/v1/runs/{run_id}/events", headers=headers)
    assert (answer.status_code, "data:" in answer.text) == (200, False)


@pytest.mark.fault("B55")
@pytest.mark.parametrize("number", ["-1", "1.5", "x", "", "1e3", "0x10", "+", "+0.0", "1_0", "9" * 5000])
async def test_an_event_number_that_is_none_is_refused(gateway: FakeGateway, number: str) -> None:
    run_id = await ended(gateway)
    answer = await gateway.http.get(f"/v1/runs/{run_id}/events", headers={"last-event-id": number})
    problem(answer, 422, "invalid-request")


@pytest.mark.fault("B58")
async def test_a_run_is_cancelled_once_and_an_ended_one_never(gateway: FakeGateway) -> None:
    done = await ended(gateway)
    made = (await gateway.http.post(ROOT, json=BODY | {"seed": 99})).json()["id"]
    assert (await gateway.http.post(f"/v1/runs/{made}/cancel")).json()["state"] == "cancelled"
    for kind, run_id in (("completed", done), ("cancelled", made)):
        before = gateway.ledger.runs.get(run_id)
        found = problem(await gateway.http.post(f"/v1/runs/{run_id}/cancel"), 409, "run-not-cancellable")
        assert kind in found.detail
        assert gateway.ledger.runs.get(run_id) == before


@pytest.mark.fault("B58")
async def test_of_twenty_cancels_at_once_one_is_answered(gateway: FakeGateway) -> None:
    run_id = (await gateway.http.post(ROOT, json=BODY | {"seed": 100})).json()["id"]
    cancel = f"/v1/runs/{run_id}/cancel"
    answers = await asyncio.gather(*(gateway.http.post(cancel) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
    assert violated(gateway.ledger, run_id) == []


@pytest.mark.fault("B58")
@pytest.mark.parametrize("verb", ["cancel", "resume"])
async def test_only_a_run_of_this_kind_is_cancelled_and_only_from_here(
    gateway: FakeGateway, verb: str
) -> None:
    run_id = await ended(gateway)
    before = gateway.ledger.runs.get(run_id)
    for path in (f"shift-benchmarks/{run_id}", "runs/nobody", f"runs/{run_id[:-1]}"):
        problem(await gateway.http.post(f"/v1/{path}/{verb}"), 404, "not-found")
    foreign = {"origin": "https://evil.example"}
    problem(await gateway.http.post(f"/v1/runs/{run_id}/{verb}", headers=foreign), 403, "foreign-origin")
    assert gateway.ledger.runs.get(run_id) == before


@pytest.mark.fault("B49")
@pytest.mark.parametrize("query", ["from=1&from=2", "from=0&from=0", "x=1&x=2", "from=é&from=0.0"])
async def test_a_parameter_that_is_given_twice_is_refused_by_name(gateway: FakeGateway, query: str) -> None:
    answer = await gateway.http.get(f"/v1/runs/{await ended(gateway)}/results?{query}")
    found = problem(answer, 422, "invalid-request")
    assert f"{query[: query.index('=')]!r} is given 2 times" in found.detail
