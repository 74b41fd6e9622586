"""Keys of the ledger through the gateway: scopes, ends, the log, sessions, and the operator's commands."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from counterpose_gateway.access import key_ring, key_watch
from counterpose_gateway.access.key_ring import KeyRing
from counterpose_gateway.http.bounds import Room
from counterpose_gateway.http.request_head import SAFE_METHODS
from counterpose_gateway.ledger.database import engine
from counterpose_gateway.main import main
from counterpose_gateway.records.access_keys import Scope
from counterpose_gateway.records.tenants import DEFAULT_TENANT
from fakes.access_keys import new_access_key
from fakes.gateway import URL, FakeGateway, fake_gateway
from fakes.ledgers import create_run
from fakes.openapi_document import document
from fakes.problems import problem
from fakes.processes import poll_until

OPEN = ("/healthz", "/readyz")
OPERATIONS = [(method.upper(), path) for path, methods in document()["paths"].items() for method in methods]
ORIGIN = {"origin": URL}


def given(
    gateway: FakeGateway, *scopes: Scope, ends: dt.timedelta | None = None, tenant: str = DEFAULT_TENANT
) -> tuple[str, dict[str, str]]:
    """Make a key; return its id and the header that sends it."""
    key, whole = new_access_key(gateway.ledger, *scopes, ends=ends, tenant=tenant)
    return key.id, {"authorization": f"Bearer {whole}"}


@pytest.mark.fault("B52", "T5")
async def test_a_scope_allows_its_own_operations_and_no_other(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        (_, reading), (_, writing) = given(gateway, "read"), given(gateway, "write")
        for method, path in OPERATIONS:
            if path in OPEN:
                continue
            looks = method in SAFE_METHODS
            for headers, allowed in ((reading, looks), (writing, not looks)):
                answer = await gateway.http.request(method, path, headers=headers)
                assert (answer.status_code == 403) is not allowed, (method, path, answer.text)
                if not allowed:
                    assert problem(answer, 403, "forbidden").retryable is False


@pytest.mark.fault("B52", "T5")
async def test_an_ended_key_is_refused_with_its_end_and_an_unknown_one_with_nothing(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        _, ended = given(gateway, ends=-dt.timedelta(hours=1))
        found = problem(await gateway.http.get("/v1/datasets", headers=ended), 401, "unauthorized")
        assert "'ci'" in str(found.detail)
        assert "ended at" in str(found.detail)
        key_id, headers = given(gateway)
        assert (await gateway.http.get("/v1/datasets", headers=headers)).status_code == 200
        gateway.ledger.access.end_key(
            replace(gateway.ledger.access.all_keys()[-1], id=key_id, revoked_at=dt.datetime.now(dt.UTC))
        )
        # Another gateway, which has not met the key yet.
        ring = KeyRing([], gateway.ledger.access)
        assert await ring.holder_of_id(key_id) is None
        problem(await gateway.http.get("/v1/datasets"), 401, "unauthorized")


@pytest.mark.parametrize("path", ["events", "wait?timeout=60"])
async def test_a_stream_and_a_wait_end_with_their_key(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_watch, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(key_ring, "KNOWN_SECONDS", 0.0)
    async with fake_gateway(tmp_path) as gateway:
        run = create_run(gateway.ledger)
        key_id, headers = given(gateway)
        _, other = given(gateway)
        waits = asyncio.create_task(gateway.http.get(f"/v1/runs/{run}/{path}", headers=headers))
        stays = asyncio.create_task(gateway.http.get(f"/v1/runs/{run}/{path}", headers=other))
        room: Room = gateway.app.state.room
        await poll_until(lambda: room.listeners.now == 2)
        key = next(each for each in gateway.ledger.access.all_keys() if each.id == key_id)
        gateway.ledger.access.end_key(replace(key, revoked_at=dt.datetime.now(dt.UTC)))
        if path == "events":
            # Its answer has begun: it ends.
            assert (await asyncio.wait_for(waits, 100)).status_code == 200
        else:
            problem(await asyncio.wait_for(waits, 100), 401, "unauthorized")
        assert not stays.done()
        gateway.ledger.runs.cancel(run)
        assert (await asyncio.wait_for(stays, 100)).status_code == 200


async def test_changes_are_logged_with_their_key_and_answer_and_looks_are_not(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        key_id, headers = given(gateway)
        await gateway.http.get("/v1/datasets", headers=headers)
        made = await gateway.http.post(
            "/v1/datasets", headers=headers, json={"name": "pets", "classes": ["cat"]}
        )
        missing = await gateway.http.delete("/v1/runs/none", headers=headers)
        reader, reading = given(gateway, "read")
        await gateway.http.delete("/v1/runs/none", headers=reading)
        refused, newest, oldest = gateway.ledger.access.log(10)
        assert (refused.holder, refused.method, refused.status) == (reader, "DELETE", 403)
        assert (oldest.holder, oldest.method, oldest.path) == (key_id, "POST", "/v1/datasets")
        assert (oldest.status, newest.status) == (made.status_code, missing.status_code)
        assert newest.path == "/v1/runs/none"


@pytest.mark.fault("F22")
async def test_a_change_behind_another_process_s_lock_is_refused_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.3)
    async with fake_gateway(tmp_path) as gateway:
        _, headers = given(gateway)
        assert (await gateway.http.get("/v1/datasets", headers=headers)).status_code == 200
        with closing(sqlite3.connect(tmp_path / "ledger.db")) as another:
            another.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            found = problem(
                await gateway.http.post("/v1/datasets", headers=headers, json={"name": "pets"}),
                503,
                "backend-unavailable",
            )
            # Once for the change, and once for its line in the log, after the answer.
            assert time.monotonic() - began < 1.5
            assert found.retryable
            assert (await gateway.http.get("/v1/datasets", headers=headers)).status_code == 200
        assert (
            await gateway.http.post("/v1/datasets", headers=headers, json={"name": "pets"})
        ).status_code == 201
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_key_and_its_session_open_the_objects_of_its_tenant(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        (_, ours), (_, theirs) = given(gateway), given(gateway, tenant="acme")
        await gateway.http.post("/v1/datasets", headers=theirs, json={"name": "pets"})
        assert (await gateway.http.get("/v1/datasets", headers=ours)).json() == {"datasets": []}
        problem(await gateway.http.get("/v1/datasets/pets", headers=ours), 404, "unknown-dataset")
        assert (await gateway.http.get("/v1/datasets/pets", headers=theirs)).json()["name"] == "pets"
        problem(await gateway.http.get("/metrics", headers=theirs), 403, "forbidden")
        assert gateway.ledger.access.log(1)[0].tenant == "acme"
        for headers, shown in ((theirs, True), (ours, False)):
            key = headers["authorization"].removeprefix("Bearer ")
            await gateway.http.post("/ui/login", data={"key": key}, headers=ORIGIN)
            assert ("pets" in (await gateway.http.get("/ui")).text) is shown


async def test_a_session_has_the_scopes_of_its_key_and_ends_with_it(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path) as gateway:
        _, headers = given(gateway, "read")
        whole = headers["authorization"].removeprefix("Bearer ")
        signed = await gateway.http.post("/ui/login", data={"key": whole, "next": "/ui"}, headers=ORIGIN)
        assert signed.status_code == 303
        assert (await gateway.http.get("/ui")).status_code == 200
        refused = await gateway.http.post("/ui/runs/none/cancel", headers=ORIGIN)
        assert "forbidden" in refused.text or refused.status_code == 403
        wrong = await gateway.http.post("/ui/login", data={"key": "cp_no"}, headers=ORIGIN)
        assert wrong.status_code == 401
        problem(await gateway.http.get("/v1/datasets"), 401, "unauthorized")


def test_the_operator_makes_lists_rotates_and_revokes_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))

    def told(*words: str) -> str:
        assert main(words) == 0
        return capsys.readouterr().out

    whole = told("keys", "create", "ci", "--scope", "read", "--days", "30", "--tenant", "acme").strip()
    [first] = json.loads(told("keys", "list", "--json"))
    assert (first["name"], first["scopes"], first["state"]) == ("ci", "read", "open")
    assert whole.startswith(f"cp_{first['id']}_")
    assert whole not in told("keys", "list")
    renewed = told("keys", "rotate", first["id"], "--overlap-hours", "0").strip()
    assert renewed != whole
    ended, second = json.loads(told("keys", "list", "--json"))
    assert (ended["state"], second["state"], second["scopes"]) == ("ended", "open", "read")
    assert first["tenant"] == second["tenant"] == "acme"
    told("keys", "revoke", second["id"])
    assert [each["state"] for each in json.loads(told("keys", "list", "--json"))] == ["ended", "revoked"]
    assert json.loads(told("access-log", "--json")) == []
    # What others write, names and paths, moves no cursor of the operator's terminal.
    told("keys", "create", "\x1b]0;owned\x07\u202eci")
    assert "\\x1b]0;owned\\x07\\u202eci" in told("keys", "list")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["keys", "revoke", "none"], "'none'"),
        (["keys", "rotate", "none"], "keys list"),
        (["keys", "create", " "], "1 to 120 letters"),
        (["keys", "create", "ci", "--days", "-1"], "--days is -1.0"),
        (["keys", "create", "ci", "--tenant", "Acme/x"], "no name of a tenant"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))
    assert main(words) == 2
    assert said in capsys.readouterr().err
