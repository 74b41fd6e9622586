"""A store is its ledger's: an empty, missing, other or older ledger beside it is refused, unless accepted."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import uvicorn
from sqlalchemy import delete

from counterpose_core.blobs import BlobStore, Mark
from counterpose_core.errors import LedgerMismatch, StorageFull
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.main import main
from counterpose_gateway.store import ownership
from counterpose_gateway.store.ownership import Ownership
from counterpose_gateway.worker.worker import Worker
from fakes.ledgers import create_run, migrated_file
from fakes.shards import png


@pytest.fixture(params=["folder", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    """A store with one blob, on a disk and as an object store."""
    root = str(tmp_path / "store") if request.param == "folder" else f"memory://{uuid.uuid4().hex}"
    opened = BlobStore(root)
    opened.put(b"an image")
    return opened


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger that never saw the store."""
    with closing(Ledger(f"sqlite:///{tmp_path / 'other' / 'ledger.db'}")) as opened:
        yield opened


def owned(ledger: Ledger, store: BlobStore) -> Ownership:
    owner = Ownership(ledger, store)
    owner.require()
    return owner


def refusal(ledger: Ledger, store: BlobStore) -> str:
    """Why a ledger is refused; the remedy is always told, and nothing is changed."""
    before = sorted(store.marks())
    with pytest.raises(LedgerMismatch, match=r"--accept-ledger \(COUNTERPOSE_ACCEPT_LEDGER") as refused:
        Ownership(ledger, store).require()
    assert sorted(store.marks()) == before
    return refused.value.detail


def test_a_store_of_before_is_marked_by_its_own_ledger_and_knows_its_last_event(
    ledger: Ledger, store: BlobStore
) -> None:
    run = create_run(ledger)
    assert store.marks() == []
    owner = owned(ledger, store)
    first = ledger.identity.mark()
    assert store.marks() == [first]
    assert first.event > 0
    ledger.runs.cancel(run)
    owner._try_to_mark()
    [later] = store.marks()
    assert later.event > first.event
    owned(ledger, store)


def test_the_number_of_the_last_event_never_falls(ledger: Ledger, store: BlobStore) -> None:
    create_run(ledger)
    owned(ledger, store)
    before = ledger.identity.mark()
    # A process that read its number a while ago marks last.
    store.mark(Mark(before.ledger, before.event - 1))
    with ledger._session.writing() as connection:
        connection.execute(delete(schema.events))
    assert ledger.identity.mark() == before
    owned(ledger, store)
    assert store.marks() == [before]


def test_a_store_that_services_filled_before_the_first_gateway_is_taken_and_told_of(
    ledger: Ledger, other: Ledger, store: BlobStore, caplog: pytest.LogCaptureFixture
) -> None:
    owned(other, store)
    assert f"the store {store.root!r} has images, and belongs to no ledger yet" in caplog.text
    assert store.marks() == [other.identity.mark()]
    assert "this ledger is empty" in refusal(ledger, store)


@pytest.mark.fault("F35")
def test_an_empty_ledger_beside_a_store_of_another_one_is_refused(
    ledger: Ledger, other: Ledger, store: BlobStore
) -> None:
    create_run(ledger)
    mark = owned(ledger, store)._left
    assert mark is not None
    said = refusal(other, store)
    assert f"belongs to the ledger {mark.ledger} (last event {mark.event}); this ledger is empty" in said


@pytest.mark.fault("F35")
def test_another_ledger_is_refused_by_its_id_and_may_be_accepted(
    ledger: Ledger, other: Ledger, store: BlobStore
) -> None:
    create_run(ledger)
    owned(ledger, store)
    create_run(other)
    assert f"this is {other.identity.mark().ledger}" in refusal(other, store)
    Ownership(other, store).require(accept=True)
    assert store.marks() == [other.identity.mark()]
    owned(other, store)
    refusal(ledger, store)


@pytest.mark.fault("F35")
def test_an_older_copy_is_refused_with_both_events_and_may_be_accepted(
    tmp_path: Path, store: BlobStore
) -> None:
    with closing(Ledger(migrated_file(tmp_path))) as ledger:
        run = create_run(ledger)
        owner = owned(ledger, store)
        with closing(Ledger(copied(tmp_path, "same"))) as same:
            owned(same, store)
        older = copied(tmp_path, "older")
        ledger.runs.cancel(run)
        owner._try_to_mark()
    with closing(Ledger(older)) as opened:
        known, own = store.marks()[0].event, opened.identity.mark().event
        assert known > own
        said = refusal(opened, store)
        assert f"this ledger ends with event {own}" in said
        assert f"up to event {known}" in said
        Ownership(opened, store).require(accept=True)
        assert store.marks() == [opened.identity.mark()]


def copied(folder: Path, name: str) -> str:
    """The URL of a copy of the ledger, as `VACUUM INTO` makes it."""
    (folder / name).mkdir()
    with closing(Ledger(f"sqlite:///{folder / 'ledger.db'}")) as ledger:
        ledger._session.database.truncate_log()
    shutil.copy(folder / "ledger.db", folder / name / "ledger.db")
    return f"sqlite:///{folder / name / 'ledger.db'}"


def test_a_copy_of_both_is_accepted(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path / "here"))
    store.put(b"an image")
    with closing(Ledger(migrated_file(tmp_path))) as ledger:
        create_run(ledger)
        owned(ledger, store)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    with closing(Ledger(copied(tmp_path, "moved"))) as moved:
        owned(moved, BlobStore(str(tmp_path / "there")))


def test_a_ledger_that_was_rolled_back_and_upgraded_is_the_same_one(ledger: Ledger, store: BlobStore) -> None:
    create_run(ledger)
    owned(ledger, store)
    ledger.roll_back("0103")
    ledger._session.database.migrate()
    owned(ledger, store)


def test_a_store_without_blobs_belongs_to_whoever_starts(tmp_path: Path, other: Ledger) -> None:
    store = BlobStore(str(tmp_path / "fresh"))
    store.mark(Mark("f" * 32, 9))
    owned(other, store)
    assert store.marks() == [other.identity.mark()]


def test_a_full_disk_does_not_keep_a_ledger_from_starting(
    ledger: Ledger, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_run(ledger)

    def full(name: str, data: bytes) -> None:
        raise StorageFull("no room")

    monkeypatch.setattr(store, "_write", full)
    owned(ledger, store)
    assert store.marks() == []


async def test_the_store_is_marked_again_and_again_though_it_was_away(
    ledger: Ledger, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_run(ledger)
    owner, write = owned(ledger, store), store._write
    seen, marked = list[str](), threading.Event()

    def away(name: str, data: bytes) -> None:
        seen.append(name)
        if len(seen) < 3:
            raise OSError("the store is away")
        write(name, data)
        marked.set()

    monkeypatch.setattr(store, "_write", away)
    monkeypatch.setattr(ownership, "MARK_SECONDS", 0.01)
    async with owner.kept():
        create_run(ledger)
        assert await asyncio.to_thread(marked.wait, 60)
        assert max(store.marks()).event == ledger.identity.mark().event
    assert store.marks() == [ledger.identity.mark()]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder for the command, whose gateway and worker stop at once."""

    async def stop(*_: object) -> None:
        """Stop at once."""

    monkeypatch.setattr(uvicorn.Server, "serve", stop)
    monkeypatch.setattr(Worker, "work", stop)
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))
    (tmp_path / "secret").write_text("a-secret-of-some-length", encoding="utf-8")
    (tmp_path / "secret").chmod(0o600)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    mask = os.umask(0o022)
    yield tmp_path
    os.umask(mask)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.fault("F35")
@pytest.mark.parametrize("verb", ["serve", "work"])
def test_the_command_refuses_what_a_failed_restore_leaves_with_status_3(
    state: Path, verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BlobStore(str(state / "store"))
    # A fresh state folder is asked nothing.
    assert main([verb]) == 0
    store.put(b"an image")

    async def busy(*_: object) -> None:
        with closing(Ledger(f"sqlite:///{state / 'ledger.db'}")) as ledger:
            create_run(ledger)

    with monkeypatch.context() as patched:
        patched.setattr(uvicorn.Server, "serve", busy)
        patched.setattr(Worker, "work", busy)
        assert main([verb]) == 0
    # At a clean end the store knows the last event.
    with closing(Ledger(f"sqlite:///{state / 'ledger.db'}")) as ledger:
        assert store.marks() == [ledger.identity.mark()]
    for path in state.glob("ledger.db*"):
        path.unlink()
    (state / "ledger.db").touch()
    assert main([verb]) == 3
    assert "this ledger is empty; name the two that belong together" in capsys.readouterr().err
    assert main([verb, "--accept-ledger"]) == 0
    assert main([verb]) == 0
    (state / "ledger.db").unlink()
    assert main([verb]) == 3
    monkeypatch.setenv("COUNTERPOSE_ACCEPT_LEDGER", "true")
    assert main([verb]) == 0


def test_a_folder_is_not_registered_into_a_ledger_that_is_not_the_store_s(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = BlobStore(str(state / "store"))
    store.put(b"an image")
    store.mark(Mark("f" * 32, 3))
    (state / "images" / "sled").mkdir(parents=True)
    (state / "images" / "sled" / "a.png").write_bytes(png(1))
    assert main(["register-dataset", "demo", str(state / "images")]) == 3
    assert "this ledger is empty" in capsys.readouterr().err
    # What only reads or writes the ledger asks nothing.
    assert main(["keys", "list"]) == 0
