"""Eviction: least recently used first, never what a row names, with readers, writers and kills beside it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.eviction import Eviction, evict

KIND = "inversion"
SIZE = 1000
FILE = SIZE + 64
"""A kept file has the digest before its bytes."""


def data(number: int) -> bytes:
    return bytes([number % 251]) * SIZE


def key(number: int) -> str:
    return cache_key(number=number)


def filled(tmp_path: Path, number: int) -> tuple[BlobStore, Path]:
    """A store that keeps so many entries, each used a second after the one before."""
    store = BlobStore(str(tmp_path))
    assert store.derived is not None
    for each in range(number):
        store.keep(KIND, key(each), data(each))
        os.utime(store.derived / KIND / key(each)[:2] / key(each), (each, each))
    return store, store.derived


def test_what_is_kept_is_found_by_its_kind_and_key(tmp_path: Path) -> None:
    store, _ = filled(tmp_path, 2)
    assert [store.find(KIND, key(each)) for each in range(3)] == [data(0), data(1), None]
    assert store.find("sweep-fork", key(0)) is None
    remote = BlobStore(f"memory://{tmp_path}")
    remote.keep(KIND, key(0), data(0))
    assert (remote.find(KIND, key(0)), remote.derived) == (data(0), None)


@pytest.mark.fault("F11")
@pytest.mark.parametrize("rotten", [b"", b"torn", b"0" * FILE])
def test_what_is_damaged_is_not_found(tmp_path: Path, rotten: bytes) -> None:
    store, folder = filled(tmp_path, 1)
    (folder / KIND / key(0)[:2] / key(0)).write_bytes(rotten)
    assert store.find(KIND, key(0)) is None


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store, folder = filled(tmp_path, 5)
    assert store.find(KIND, key(0)) == data(0)
    assert evict(folder, 2 * FILE, recent_seconds=0) == Eviction(3, 3 * FILE, 2 * FILE)
    assert [store.find(KIND, key(each)) is not None for each in range(5)] == [True, *[False] * 3, True]
    assert evict(folder, 2 * FILE, recent_seconds=0) == Eviction(0, 0, 2 * FILE)


def test_without_a_budget_or_within_it_nothing_goes(tmp_path: Path) -> None:
    _, folder = filled(tmp_path, 3)
    assert evict(folder, None) == evict(folder, 3 * FILE) == Eviction(0, 0, 3 * FILE)
    assert evict(folder / "absent", 0) == Eviction(0, 0, 0)


def test_what_was_used_just_now_stays_whatever_the_budget(tmp_path: Path) -> None:
    store, folder = filled(tmp_path, 3)
    store.find(KIND, key(1))
    assert evict(folder, 0).files == 2
    assert store.find(KIND, key(1)) == data(1)


def test_nothing_that_a_row_may_name_is_evicted(tmp_path: Path) -> None:
    store, folder = filled(tmp_path, 3)
    image, index = store.put(b"an image"), store.put(b"an index")
    store.remember("image-index", key(7), index)
    evict(folder, 0, recent_seconds=0)
    assert (store.get(image), store.recall("image-index", key(7))) == (b"an image", index)


def test_a_file_that_is_used_between_the_look_and_its_turn_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = filled(tmp_path, 2)
    unlink = Path.unlink

    def used_meanwhile(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        store.find(KIND, key(1))

    monkeypatch.setattr(Path, "unlink", used_meanwhile)
    assert evict(folder, 0, recent_seconds=0) == Eviction(1, FILE, FILE)
    assert store.find(KIND, key(1)) == data(1)


def _use(root: str, stop: Event, start: int) -> None:
    """Find what there is and keep what there is not, as a replica of the editor does."""
    store = BlobStore(root)
    while not stop.is_set():
        for each in range(start, start + 20):
            found = store.find(KIND, key(each))
            if found is None:
                store.keep(KIND, key(each), data(each))
            else:
                assert found == data(each)


def _evict(root: str, stop: Event) -> None:
    while not stop.is_set():
        evict(Path(root) / "derived", 5 * FILE, recent_seconds=0)


@pytest.mark.fault("F30")
def test_readers_writers_and_two_evicting_processes_do_not_disturb_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    workers = [context.Process(target=_use, args=(str(tmp_path), stop, start)) for start in (0, 10)]
    workers += [context.Process(target=_evict, args=(str(tmp_path), stop)) for _ in range(2)]
    for worker in workers:
        worker.start()
    time.sleep(1.0)
    stop.set()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert evict(tmp_path / "derived", 5 * FILE, recent_seconds=0).left_bytes <= 5 * FILE


@pytest.mark.fault("F7")
def test_a_kill_between_keeping_and_evicting_leaves_whole_files_alone(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for moment in range(8):
        stop = context.Event()
        workers = [
            context.Process(target=_use, args=(str(tmp_path), stop, 0)),
            context.Process(target=_evict, args=(str(tmp_path), stop)),
        ]
        for worker in workers:
            worker.start()
        time.sleep(0.05 + 0.01 * moment)
        for worker in workers:
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
        files = list((tmp_path / "derived").rglob("?" * 64))
        assert {path.stat().st_size for path in files} <= {FILE}
    store = BlobStore(str(tmp_path))
    assert store.sweep(older_than_seconds=-1) <= 8
    evict(tmp_path / "derived", 0, recent_seconds=0)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
