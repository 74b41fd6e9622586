"""A killed export leaves no complete folder, and running it again gives the same result."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpose_core.blobs import BlobStore
from counterpose_gateway.exports.export import ExportLayout, write_export
from fakes.exports import CARD, contents, export_and_die, records
from fakes.processes import Start, child_processes


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    with child_processes() as start_one:
        yield start_one


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> BlobStore:
    return BlobStore(str(tmp_path_factory.mktemp("store")))


# The others write as image folders do.
@pytest.mark.parametrize("layout", ["imagefolder", "parquet", "webdataset"])
@pytest.mark.parametrize("after", [5, 24])
def test_a_killed_export_leaves_no_complete_folder_and_can_be_repeated(
    store: BlobStore, tmp_path: Path, start: Start, layout: ExportLayout, after: int
) -> None:
    made = records(store)
    assert len(made) == 24
    target = tmp_path / "set"
    process = start(export_and_die, store.root, str(target), layout, after)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == [".set.partial"]
    for folder in (target, tmp_path / "undisturbed"):
        write_export(made, folder, layout=layout, store=store, card=CARD, shard_bytes=2000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "undisturbed"]
    assert contents(target) == contents(tmp_path / "undisturbed")
