"""F26: a ledger with data is rolled back to each earlier revision and migrated again; its histories load."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.revisions import known_revisions, migration_config
from counterpose_gateway.main import main
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import migrated_file

BODY: dict[str, Any] = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3,
                        "max_edits_per_image": 1, "lance_r_edits_per_image": 0}  # fmt: skip
RECENT = {"sqlite": None, "postgresql": 5}
"""How many of the newest revisions are rolled back to; None for all."""


def at(ledger: Ledger) -> str:
    with ledger._database.reading() as connection:
        return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


def history(ledger: Ledger, run_id: str) -> dict[str, Any]:
    """What a client reads of a run."""
    run = ledger.run(run_id)
    return {
        "state": run.state, "counts": run.request_counts, "config": run.resolved_config,
        "items": [(item.id, item.ordinal, item.state, item.result) for item in ledger.items(run_id)],
        "audit": ledger.audit(run_id), "totals": ledger.audit_totals(),
    }  # fmt: skip


@pytest.mark.fault("F26")
async def test_a_ledger_survives_a_rollback_to_each_revision_and_its_runs_go_on(
    database: str, url: str, tmp_path: Path
) -> None:
    async with fake_gateway(tmp_path, ledger=Ledger(url)) as gateway:
        await gateway.upload("demo", 1)
        ended = await created(gateway)
        await gateway.worker().work_off()
        cancelled = await created(gateway)
        gateway.ledger.cancel(cancelled)
        begun = await created(gateway)
        group = gateway.ledger.lease_group("worker", seconds=30, run_id=begun)
        assert group is not None
        gateway.ledger.release(group)
        runs = (ended, cancelled, begun)
        before = {run: history(gateway.ledger, run) for run in runs}
        assert all(each["audit"] == each["totals"] == [] for each in before.values())
        # The first is the newest, from which each rollback starts.
        for revision in known_revisions(migration_config())[1:][: RECENT[database]]:
            gateway.ledger.roll_back(revision)
            assert at(gateway.ledger) == revision
            gateway.ledger._database.migrate()
            assert {run: history(gateway.ledger, run) for run in runs} == before, revision
        await gateway.worker().work_off()
        assert gateway.ledger.run(begun).state == "completed"
        assert history(gateway.ledger, begun)["audit"] == []


async def created(gateway: FakeGateway) -> str:
    return str((await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"])


@pytest.mark.fault("F26")
def test_the_command_rolls_back_and_a_newer_ledger_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))
    mask = os.umask(0o022)
    url, newest = migrated_file(tmp_path), known_revisions(migration_config())[0]
    assert main(["roll-back", "0023"]) == 0
    assert "is at revision 0023" in capsys.readouterr().out
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as file:
        assert file.execute("SELECT version_num FROM alembic_version").fetchall() == [("0023",)]
        file.execute("UPDATE alembic_version SET version_num = '9999'")
        file.commit()
    with pytest.raises(InvalidRequest, match=f"'9999'.*roll-back {newest}"):
        Ledger(url)
    os.umask(mask)


@pytest.mark.parametrize("revision", ["9999", "head", "-1", ""])
def test_an_unknown_revision_is_refused(revision: str, tmp_path: Path) -> None:
    ledger = Ledger(migrated_file(tmp_path))
    with pytest.raises(InvalidRequest, match="0001 to"):
        ledger.roll_back(revision)
    ledger.close()
