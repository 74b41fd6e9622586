"""Imports that must be refused or fail by name: addresses, shards, archives, labels and quotas."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow
import pyarrow.parquet
import pytest
import pytest_asyncio

from counterpose_gateway.imports import importer as importing
from counterpose_gateway.records.imports import LeasedShard
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock
from fakes.shards import png, sample, tar, write_files, write_index, write_shards

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def hours() -> Clock:
    """A clock that `finish` moves over the pauses between attempts."""
    return Clock()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory, hours: Clock) -> AsyncIterator[FakeGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    allowed = ("memory://", "https://", f"file://{folder}/allowed")
    async with fake_gateway(folder, hours, import_from=allowed) as opened:
        yield opened


@pytest.fixture
def url(name: str) -> str:
    return f"memory://{name}"


async def asked(gateway: FakeGateway, name: str, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = await gateway.http.post(f"/v1/datasets/{name}/import", json=body)
    return answer.status_code, answer.json()


async def finish(gateway: FakeGateway, hours: Clock, name: str) -> dict[str, Any]:
    """Import all that waits, pauses left out, and return how that ended."""
    importer = gateway.importer()
    for _ in range(10):
        while (leased := await importer.lease()) is not None:
            await importer.work(leased)
        hours.now += 60
    imported: dict[str, Any] = (await gateway.http.get(f"/v1/datasets/{name}")).json()["imported"]
    return imported


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("s3://bucket/a.tar", "import-refused"),
        ("file:///etc/a.tar", "import-refused"),
        ("file://{allowed}/../secret/a.tar", "invalid-request"),
        ("file://{allowed}-of-others/a.tar", "import-refused"),
        ("simplecache::memory://a.tar", "invalid-request"),
        ("https://user:word@example.org/a.tar", "invalid-request"),
        ("https://example.org/a.tar?signature=1", "invalid-request"),
        ("/data/a.tar", "invalid-request"),
    ],
)
async def test_an_address_that_is_not_allowed_is_refused_at_once(
    gateway: FakeGateway, name: str, address: str, code: str
) -> None:
    allowed = gateway.settings.import_from[-1].removeprefix("file://")
    status, problem = await asked(gateway, name, url=address.format(allowed=allowed))
    assert (status, problem["code"]) == (422, code)
    assert (await gateway.http.get(f"/v1/datasets/{name}")).status_code == 404


def link_out_of(folder: Path, name: str, elsewhere: Path) -> None:
    """Make a link in a folder to a tar elsewhere."""
    folder.mkdir(exist_ok=True)
    (elsewhere / "secret.tar").write_bytes(tar(sample(1, "sled")))
    (folder / name).symlink_to(elsewhere / "secret.tar")


async def test_a_link_out_of_an_allowed_folder_is_not_followed(
    gateway: FakeGateway, hours: Clock, name: str, tmp_path: Path
) -> None:
    allowed = gateway.settings.import_from[-1]
    link_out_of(Path(allowed.removeprefix("file://")), f"{name}.tar", tmp_path)
    status, problem = await asked(gateway, name, url=f"{allowed}/{name}.tar")
    assert (status, problem["code"]) == (422, "import-refused")


async def test_an_index_that_names_missing_and_refused_shards_keeps_the_others(
    gateway: FakeGateway, hours: Clock, name: str, url: str
) -> None:
    write_files(url, {"here.tar": tar(sample(1, "sled"))})
    await asked(gateway, name, url=write_index(url, ["here.tar", "gone.tar", "s3://bucket/other.tar"]))
    imported = await finish(gateway, hours, name)
    assert (imported["state"], imported["shards_done"], imported["shards_failed"]) == ("failed", 1, 2)
    told = {shard["shard"]: shard["code"] for shard in imported["failed_shards"]}
    assert told == {f"{url}/gone.tar": "shard-unreadable", "s3://bucket/other.tar": "import-refused"}
    assert "gone.tar" in imported["problem"]["detail"]
    assert gateway.ledger.datasets.get(name).n_sources == 1


async def test_a_failed_import_goes_on_where_it_stopped_once_its_shard_is_there(
    gateway: FakeGateway, hours: Clock, name: str, url: str
) -> None:
    pattern = write_shards(url, 2, 2, ["boat", "sled"])
    kept = remove(f"{url}/shard-000001.tar")
    await asked(gateway, name, url=pattern)
    assert (await finish(gateway, hours, name))["state"] == "failed"
    write_files(url, {"shard-000001.tar": kept})
    assert (await asked(gateway, name, url=pattern))[1]["imported"]["state"] == "listing"
    imported = await finish(gateway, hours, name)
    assert (imported["state"], imported["images"], imported["problem"]) == ("done", 4, None)


async def test_a_shard_that_vanishes_while_it_is_read_is_named_and_its_images_are_kept(
    gateway: FakeGateway, hours: Clock, name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "PART", 2)
    pattern = write_shards(url, 1, 5, ["boat", "sled"])
    await asked(gateway, name, url=pattern)
    removed = after_a_part(
        gateway, lambda: fsspec.open(f"{url}/shard-000000.tar").fs.rm(f"{url}/shard-000000.tar")
    )
    monkeypatch.setattr(gateway.ledger.imports, "record_part", removed)
    imported = await finish(gateway, hours, name)
    assert (imported["state"], imported["problem"]["code"]) == ("failed", "shard-unreadable")
    assert f"{url}/shard-000000.tar" in imported["problem"]["detail"]
    assert gateway.ledger.datasets.get(name).n_sources == 2


async def test_a_shard_that_changes_while_it_is_read_is_read_anew(
    gateway: FakeGateway, hours: Clock, name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "PART", 2)
    pattern = write_shards(url, 1, 5, ["boat", "sled"])
    await asked(gateway, name, url=pattern)
    changed = after_a_part(gateway, lambda: write_shards(url, 1, 7, ["boat", "sled"]))
    monkeypatch.setattr(gateway.ledger.imports, "record_part", changed)
    imported = await finish(gateway, hours, name)
    assert (imported["state"], imported["images"]) == ("done", 7)
    # The two of the first reading are there once.
    assert gateway.ledger.datasets.get(name).n_sources == 7


def remove(address: str) -> bytes:
    """Remove a file and return what it held."""
    file = fsspec.open(address, "rb")
    with file as opened:
        data: bytes = opened.read()
    file.fs.rm(address)
    return data


def after_a_part(gateway: FakeGateway, change: Any) -> Any:
    """Record parts as the ledger does, and do ``change`` after the first."""
    record = gateway.ledger.imports.record_part
    done: list[object] = []

    def recording(leased: LeasedShard, *args: Any, **options: Any) -> bool:
        recorded = record(leased, *args, **options)
        if not done:
            done.append(change())
        return recorded

    return recording


def hostile_tar() -> bytes:
    """A tar with members that lead elsewhere or are no files, and one good image at its end."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, kind, to in (
            ("../out.png", tarfile.REGTYPE, ""), ("/abs.png", tarfile.REGTYPE, ""),
            ("C:\\windows.png", tarfile.REGTYPE, ""), ("link.png", tarfile.SYMTYPE, "/etc/passwd"),
            ("hard.png", tarfile.LNKTYPE, "/etc/passwd"), ("device.png", tarfile.CHRTYPE, ""),
            ("pipe.png", tarfile.FIFOTYPE, ""),
        ):  # fmt: skip
            header = tarfile.TarInfo(name)
            header.type, header.linkname = kind, to
            archive.addfile(header, io.BytesIO(b""))
        for name, data in sample(1, "sled"):
            header = tarfile.TarInfo(name)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    return written.getvalue()


@pytest.mark.fault("B47", "T14", "T16")
async def test_members_that_lead_out_of_a_tar_are_refused_by_name(
    gateway: FakeGateway, hours: Clock, name: str, url: str
) -> None:
    shard = f"{write_files(url, {'hostile.tar': hostile_tar()})}/hostile.tar"
    await asked(gateway, name, url=shard)
    imported = await finish(gateway, hours, name)
    assert (imported["state"], imported["images"], imported["n_rejected"]) == ("done", 1, 7)
    told = " ".join(one["detail"] for one in imported["rejected"])
    assert all(words in told for words in ("'../out.png'", "'/abs.png'", "'C:\\\\windows.png'"))
    assert told.count("links are not followed") == 2
    assert told.count("is no plain file") == 2


async def test_a_tar_that_is_cut_off_keeps_what_came_before(
    gateway: FakeGateway, hours: Clock, name: str, url: str
) -> None:
    whole = tar([*sample(1, "boat"), *sample(2, "sled"), ("000003.png", png(3, side=64))])
    await asked(gateway, name, url=f"{write_files(url, {'cut.tar': whole[:-12_000]})}/cut.tar")
    imported = await finish(gateway, hours, name)
    assert (imported["state"], imported["problem"]["code"]) == ("failed", "shard-unreadable")
    assert gateway.ledger.datasets.get(name).n_sources == 2


async def test_a_header_that_would_fill_the_memory_is_not_read(
    gateway: FakeGateway, hours: Clock, name: str, url: str
) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 8_000_000_000
    await asked(gateway, name, url=f"{write_files(url, {'long.tar': header.tobuf()})}/long.tar")
    imported = await finish(gateway, hours, name)
    assert "a header of the tar has 8000000000 bytes" in imported["problem"]["detail"]


async def test_a_label_without_a_name_is_refused_and_the_rest_is_taken_in(
    gateway: FakeGateway, hours: Clock, name: str, url: str
) -> None:
    await asked(gateway, name, url=write_shards(url, 1, 3, [0, 1, 7], ["boat", "sled"]))
    imported = await finish(gateway, hours, name)
    assert (imported["state"], imported["images"]) == ("done", 2)
    assert imported["rejected"][0]["filename"] == "shard-000000.tar/000002"
    assert "the label 7 has no name: 2 classes" in imported["rejected"][0]["detail"]


async def test_numbers_without_names_make_no_dataset(
    gateway: FakeGateway, hours: Clock, name: str, url: str
) -> None:
    await asked(gateway, name, url=write_shards(url, 1, 3, [0, 1]))
    imported = await finish(gateway, hours, name)
    assert (imported["state"], imported["problem"]["code"]) == ("failed", "dataset-empty")
    assert "a number without a name" in imported["problem"]["detail"]


@pytest.mark.parametrize(
    ("columns", "told"), [(("photo", "label"), "no column 'image'"), (("image", "kind"), "no column 'label'")]
)
async def test_a_parquet_file_without_the_column_is_refused_with_those_that_it_has(
    gateway: FakeGateway, hours: Clock, name: str, url: str, columns: tuple[str, str], told: str
) -> None:
    written = io.BytesIO()
    table = pyarrow.table({columns[0]: [png(1)], columns[1]: ["sled"]})
    pyarrow.parquet.write_table(table, written)
    await asked(gateway, name, url=f"{write_files(url, {'one.parquet': written.getvalue()})}/one.parquet")
    imported = await finish(gateway, hours, name)
    assert (imported["state"], imported["problem"]["code"]) == ("failed", "invalid-request")
    assert told in imported["problem"]["detail"]
    assert repr(columns[0]) in imported["problem"]["detail"]


async def test_an_empty_folder_is_no_dataset_and_another_address_may_be_given(
    gateway: FakeGateway, hours: Clock, name: str, url: str
) -> None:
    write_files(url, {"read.me": b""})
    await asked(gateway, name, url=url)
    imported = await finish(gateway, hours, name)
    assert (imported["state"], imported["problem"]["code"]) == ("failed", "dataset-empty")
    status, _ = await asked(gateway, name, url=write_shards(url, 1, 1, ["sled"]))
    assert status == 202
    assert (await finish(gateway, hours, name))["state"] == "done"


async def test_a_quota_ends_the_import_and_a_higher_one_lets_it_go_on(
    gateway: FakeGateway, hours: Clock, name: str, url: str
) -> None:
    pattern = write_shards(url, 3, 2, ["boat", "sled"])
    await asked(gateway, name, url=pattern)
    few = gateway.importer(max_dataset_images=3)
    while (leased := await few.lease()) is not None:
        await few.work(leased)
    imported = (await gateway.http.get(f"/v1/datasets/{name}")).json()["imported"]
    assert (imported["state"], imported["problem"]["code"]) == ("failed", "quota-exceeded")
    assert "COUNTERPOSE_MAX_DATASET_IMAGES" in imported["problem"]["detail"]
    assert gateway.ledger.datasets.get(name).n_sources == 2
    await asked(gateway, name, url=pattern)
    assert (await finish(gateway, hours, name))["images"] == 6


@pytest.mark.fault("B65")
@pytest.mark.parametrize(
    ("names", "detail"),
    [
        ("s-{000000000..999999999}.tar", "more than 100000 shards (COUNTERPOSE_MAX_IMPORT_SHARDS)"),
        ("s-{000..999}-{000..999}.tar", "more than 100000 shards"),
        ("p-{000000..999999}.parquet", "more than 100000 shards"),
        ("s-{00000..99999}.tar", "s-00000.tar"),
        ("p-{00000..99999}.parquet", "p-00000.parquet"),
    ],
)
async def test_a_pattern_of_many_names_is_refused_before_one_is_written_down(
    gateway: FakeGateway, hours: Clock, name: str, url: str, names: str, detail: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    written: list[int] = []
    monkeypatch.setattr(
        type(gateway.ledger.imports), "add_shards", lambda self, leased, some, last: written.append(len(some))
    )
    status, _ = await asked(gateway, name, url=f"{url}/{names}")
    assert status == 202
    imported = await finish(gateway, hours, name)
    assert imported["state"] == "failed"
    assert detail in imported["problem"]["detail"]
    assert written == []
