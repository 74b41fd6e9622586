"""Columns that files keep: those of the ledger's documents, whatever became of the files or of the run."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, text

from counterpose_core.statistics.coded import Floats
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.items.items import Items
from counterpose_gateway.methods.stress_test.columns import (
    ItemColumns,
    keep_parts,
    kept,
    read_columns,
    reading,
)
from counterpose_gateway.summaries.columns import ColumnFolder
from fakes.gateway import fake_gateway
from fakes.ledgers import done

PART = 32
BODY = {
    "dataset": "demo", "classifiers": ["steady", "leaning"], "edit_types": ["background", "object"],
    "max_edits_per_image": 2, "confirm_share": 0.5, "seed": 3,
}  # fmt: skip

Recorded = tuple[Ledger, str, ColumnFolder]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of few items: the run has several."""
    monkeypatch.setattr(kept, "PART", PART)
    monkeypatch.setattr(reading, "PART", PART)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A ledger with a run that a worker took through its stages."""
    folder = tmp_path_factory.mktemp("recorded")

    async def record() -> str:
        async with fake_gateway(folder) as gateway:
            await gateway.upload("demo", 9, ("sled", "boat"))
            run_id: str = (await gateway.http.post("/v1/stress-tests", json=BODY)).json()["id"]
            await gateway.worker().work_off()
            return run_id

    return folder, asyncio.run(record())


@pytest.fixture
def recorded(written: tuple[Path, str], tmp_path: Path) -> Iterator[Recorded]:
    """A copy of it, and an empty folder of columns."""
    shutil.copy(written[0] / "ledger.db", tmp_path)
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    yield ledger, written[1], ColumnFolder(tmp_path / "columns", 10**9)
    ledger.close()


def read(recorded: Recorded) -> ItemColumns:
    """The columns by the files."""
    ledger, run_id, folder = recorded
    return read_columns(ledger.runs.get(run_id), ledger, folder)


def only_from_files(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> ItemColumns:
    """The columns, where no document can be read."""
    with monkeypatch.context() as patched:
        patched.setattr(Items, "recorded", None)
        return read(recorded)


def files_of(recorded: Recorded) -> list[Path]:
    """The files of the run."""
    return sorted((recorded[2].path / recorded[1]).iterdir())


def check(found: ItemColumns, recorded: Recorded) -> None:
    """Compare with the columns of the ledger's documents, made as one part, bit by bit."""
    ledger, run_id, _ = recorded
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "PART", 10**6)
        known = read_columns(ledger.runs.get(run_id), ledger)
    assert list(found.ids) == list(known.ids)
    sums = (found.sums.cost, found.sums.unanswered, found.sums.predicted, found.instructions)
    assert sums == (known.sums.cost, known.sums.unanswered, known.sums.predicted, known.instructions)
    # Added up in another order.
    assert found.sums.service_seconds == pytest.approx(known.sums.service_seconds, rel=1e-12)
    assert {name: codes.names for name, codes in found.names.items()} == {
        name: codes.names for name, codes in known.names.items()
    }
    assert list(found.answers) == list(known.answers)
    arrays, others = arrays_of(found), arrays_of(known)
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        assert array.dtype == others[name].dtype, name
        np.testing.assert_array_equal(array, others[name], name)


def arrays_of(columns: ItemColumns) -> dict[str, Floats]:
    """All columns, and the vectors that they number."""
    arrays = {name: each for name, each in vars(columns).items() if isinstance(each, np.ndarray)}
    for name, answers in columns.answers.items():
        arrays |= {f"{name}/{kind}": column for kind, column in vars(answers).items()}
    for name, vectors in columns.vectors.items():
        arrays[f"{name}/width"] = vectors.width
        for width in np.unique(vectors.width[vectors.known]).tolist():
            rows = np.where(vectors.width == width, vectors.row, -1)
            arrays[f"{name}/{width}"] = columns.features.read(width, rows)
    return arrays


def test_columns_from_files_are_those_of_documents(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, run_id, _ = recorded
    check(read(recorded), recorded)
    assert len(files_of(recorded)) == -(-ledger.runs.get(run_id).request_counts.total // PART) > 2
    check(only_from_files(recorded, monkeypatch), recorded)


def test_parts_are_kept_some_at_a_time(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, run_id, folder = recorded
    monkeypatch.setattr(kept, "KEPT_AT_ONCE", 2)
    assert keep_parts(ledger.runs.get(run_id), ledger, folder) == 2
    assert folder.kept(run_id) == {0, 1}
    while keep_parts(ledger.runs.get(run_id), ledger, folder):
        pass
    check(only_from_files(recorded, monkeypatch), recorded)


def change(recorded: Recorded, sql: str) -> None:
    """Change the ledger's database."""
    engine = create_engine(f"sqlite:///{recorded[2].path.parent}/ledger.db")
    with engine.begin() as connection:
        connection.execute(text(sql))
    engine.dispose()


def fail_one(recorded: Recorded) -> None:
    """Let the item at the place 40 have failed."""
    change(
        recorded,
        "UPDATE items SET state = 'failed', result = NULL, code = 'internal-error' WHERE ordinal = 40",
    )
    change(recorded, "UPDATE runs SET state = 'completed_with_failures', failed = 1, done = done - 1")


def test_a_resumed_run_is_read_anew(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, run_id, _ = recorded
    fail_one(recorded)
    failed = read(recorded)
    assert failed.of_state(40) == "failed"
    ledger.runs.resume(run_id)
    open_again = read(recorded)
    assert open_again.of_state(40) == "pending"
    check(open_again, recorded)
    group = ledger.items.lease("worker", seconds=30.0)
    assert group is not None
    ledger.items.finish(group.items[0].id, group.items[0].fence, done())
    assert read(recorded).of_state(40) == "done"
    change(recorded, "UPDATE runs SET state = 'completed'")
    check(read(recorded), recorded)
    check(only_from_files(recorded, monkeypatch), recorded)


def test_open_items_are_not_kept(recorded: Recorded) -> None:
    ledger, run_id, folder = recorded
    fail_one(recorded)
    ledger.runs.resume(run_id)
    while keep_parts(ledger.runs.get(run_id), ledger, folder):
        pass
    total = ledger.runs.get(run_id).request_counts.total
    # Nor the last part, which a later stage may fill.
    assert folder.kept(run_id) == {0, *range(2, total // PART)}


def test_a_ledger_that_was_restored_counts(recorded: Recorded) -> None:
    read(recorded)
    # As if the item had ended later: everything else of its stamp is the same.
    change(recorded, "UPDATE items SET due_at = due_at + 1, label = 'other', result = NULL WHERE ordinal = 3")
    found = read(recorded)
    assert found.name("label", int(found.label[3])) == "other"
    check(found, recorded)


def cut(content: bytes) -> bytes:
    """The first half."""
    return content[: len(content) // 2]


def flipped(at: float) -> Callable[[bytes], bytes]:
    """Change one bit at this share of the file."""

    def flip(content: bytes) -> bytes:
        place = int(at * (len(content) - 1))
        return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]

    return flip


@pytest.mark.parametrize(
    "damage",
    [cut, flipped(0.0), flipped(0.05), flipped(0.3), flipped(0.7), flipped(1.0), lambda _: b""],
    ids=["cut", "magic", "header", "third", "late", "last", "empty"],
)
def test_a_damaged_file_is_made_anew(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    read(recorded)
    broken = files_of(recorded)[1]
    whole = broken.read_bytes()
    broken.write_bytes(damage(whole))
    check(read(recorded), recorded)
    assert broken.read_bytes() == whole
    check(only_from_files(recorded, monkeypatch), recorded)


def test_files_of_other_code_are_made_anew(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    read(recorded)
    monkeypatch.setattr(kept, "made_by", lambda: "stress-test of another day")
    with pytest.raises(TypeError):
        only_from_files(recorded, monkeypatch)
    check(read(recorded), recorded)


def test_a_full_disk_only_means_no_files(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    check(read(recorded), recorded)
    assert files_of(recorded) == []


_WRITER = """
import sys
from pathlib import Path
from counterpose_gateway.summaries.columns import ColumnFolder
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.methods.stress_test.columns import kept, keep_parts
kept.PART = int(sys.argv[4])
ledger, folder = Ledger(sys.argv[1]), ColumnFolder(Path(sys.argv[2]), 10**9)
print("ready", flush=True)
while True:
    while keep_parts(ledger.runs.get(sys.argv[3]), ledger, folder):
        pass
    folder.remove(sys.argv[3])
"""


def test_a_killed_writer_leaves_no_wrong_part(recorded: Recorded) -> None:
    _, run_id, folder = recorded
    address = f"sqlite:///{folder.path.parent}/ledger.db"
    command = [sys.executable, "-c", _WRITER, address, str(folder.path), run_id, str(PART)]
    for pause in (0.01, 0.05):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(pause)
            os.kill(writer.pid, signal.SIGKILL)
        check(read(recorded), recorded)


def test_room_is_made_by_the_run_that_was_read_longest_ago(recorded: Recorded) -> None:
    ledger, run_id, folder = recorded
    read(recorded)
    size = folder.bytes_of_runs()[run_id]
    shutil.copytree(folder.path / run_id, folder.path / "old")
    os.utime(folder.path / "old", (1.0, 1.0))
    files_of(recorded)[-1].unlink()
    read_columns(ledger.runs.get(run_id), ledger, ColumnFolder(folder.path, size))
    assert folder.bytes_of_runs() == {run_id: size}
    small = ColumnFolder(folder.path.parent / "small", size // 2)
    check(read_columns(ledger.runs.get(run_id), ledger, small), recorded)
    assert 0 < sum(small.bytes_of_runs().values()) < size


async def test_deleting_a_run_removes_its_files(recorded: Recorded) -> None:
    ledger, run_id, folder = recorded
    read(recorded)
    (folder.path / "of another gateway's deletion").mkdir()
    folder.sweep(ledger.runs.existing)
    assert list(folder.bytes_of_runs()) == [run_id]
    async with fake_gateway(folder.path.parent, ledger=ledger, columns=folder) as gateway:
        assert (await gateway.http.delete(f"/v1/runs/{run_id}")).status_code == 204
    assert folder.bytes_of_runs() == {}
