"""F26: a ledger with data is rolled back to every revision and migrated again; its histories load.

A further revision of the tests stands for a later version.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, text

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database import revisions
from counterpose_gateway.ledger.database.revisions import known_revisions, migration_config
from counterpose_gateway.main import main
from fakes import later_revisions
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated, violated_totals
from fakes.ledgers import migrated_file

BODY: dict[str, Any] = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "seed": 3,
                        "max_edits_per_image": 1, "lance_r_edits_per_image": 0}  # fmt: skip
NEWEST, LATER = "0107", "0108"


@contextmanager
def later_version() -> Iterator[None]:
    """Let this process be of a version with one more revision."""
    folder = Path(later_revisions.__file__).parent
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(revisions, "VERSIONS", (*revisions.VERSIONS, folder))
        yield


def at(ledger: Ledger) -> str:
    with ledger._session.database.reading() as connection:
        return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


def tables(ledger: Ledger) -> set[str]:
    with ledger._session.database.reading() as connection:
        return set(inspect(connection).get_table_names())


def notes(ledger: Ledger) -> dict[str, str]:
    """What the second revision adds, by run."""
    query = text(
        "SELECT id, runs.note FROM runs JOIN run_notes AS more ON run_id = id AND more.note = runs.note"
    )
    with ledger._session.database.reading() as connection:
        return {row.id: row.note for row in connection.execute(query)}


def history(ledger: Ledger, run_id: str) -> dict[str, Any]:
    """What a client reads of a run."""
    run = ledger.runs.get(run_id)
    return {
        "state": run.state, "counts": run.request_counts, "config": run.resolved_config,
        "items": [(item.id, item.ordinal, item.state, item.result) for item in ledger.items.all(run_id)],
        "audit": violated(ledger, run_id), "totals": violated_totals(ledger),
    }  # fmt: skip


def rows(ledger: Ledger) -> list[Any]:
    """What every revision has of each item, which an earlier version reads."""
    query = text("SELECT id, ordinal, state, attempts, label, caption, result FROM items ORDER BY id")
    with ledger._session.database.reading() as connection:
        return [tuple(row) for row in connection.execute(query)]


@pytest.mark.fault("F26")
async def test_a_ledger_survives_a_rollback_to_each_revision_and_its_runs_go_on(
    empty_url: str, tmp_path: Path
) -> None:
    Ledger(empty_url).close()
    with later_version():
        async with fake_gateway(tmp_path, ledger=Ledger(empty_url)) as gateway:
            assert at(gateway.ledger) == LATER
            await gateway.upload("demo", 1)
            ended = await created(gateway)
            await gateway.worker().work_off()
            cancelled = await created(gateway)
            gateway.ledger.runs.cancel(cancelled)
            begun = await created(gateway)
            group = gateway.ledger.items.lease("worker", seconds=30, run_id=begun)
            assert group is not None
            gateway.ledger.items.release(group)
            runs = (ended, cancelled, begun)
            before = {run: history(gateway.ledger, run) for run in runs}
            assert all(each["audit"] == each["totals"] == [] for each in before.values())
            recorded = rows(gateway.ledger)
            # The first is the newest, from which each rollback starts.
            for revision in known_revisions(migration_config())[1:]:
                assert tables(gateway.ledger) >= {"run_notes"}
                gateway.ledger.roll_back(revision)
                assert at(gateway.ledger) == revision
                assert "run_notes" not in tables(gateway.ledger)
                assert rows(gateway.ledger) == recorded, revision
                gateway.ledger._session.database.migrate()
                assert {run: history(gateway.ledger, run) for run in runs} == before, revision
            assert notes(gateway.ledger) == {run: str(read["counts"].total) for run, read in before.items()}
            await gateway.worker().work_off()
            assert gateway.ledger.runs.get(begun).state == "completed"
            assert history(gateway.ledger, begun)["audit"] == []


async def created(gateway: FakeGateway) -> str:
    return str((await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"])


@pytest.mark.fault("F26")
def test_the_command_rolls_back_and_a_newer_ledger_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))
    mask = os.umask(0o022)
    url = migrated_file(tmp_path)
    with later_version():
        Ledger(url).close()
    with pytest.raises(InvalidRequest, match=f"'{LATER}', which a newer.*roll-back {NEWEST}"):
        Ledger(url)
    with later_version():
        assert main(["roll-back", NEWEST]) == 0
    assert f"is at revision {NEWEST}" in capsys.readouterr().out
    reopened = Ledger(url)
    assert at(reopened) == NEWEST
    reopened.close()
    os.umask(mask)


@pytest.mark.parametrize("revision", ["0001", "0028"])
def test_a_ledger_from_before_the_first_release_is_refused_and_left_as_it_is(revision: str, url: str) -> None:
    ledger = Ledger(url)
    with ledger._session.database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :old"), {"old": revision})
    with pytest.raises(
        InvalidRequest, match=f"'{revision}'.*before the first release.*COUNTERPOSE_DATABASE_URL"
    ):
        Ledger(url)
    assert at(ledger) == revision
    ledger.close()


@pytest.mark.parametrize("revision", ["9999", "head", "-1", "base", ""])
def test_an_unknown_revision_is_refused(revision: str, tmp_path: Path) -> None:
    ledger = Ledger(migrated_file(tmp_path))
    with pytest.raises(InvalidRequest, match=f"it has {NEWEST}"):
        ledger.roll_back(revision)
    ledger.close()
