"""Shards that somebody made to keep a worker: without end, of much memory, or of unexpected values."""

from __future__ import annotations

import asyncio
import io
import struct
import tarfile
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import pytest_asyncio

from counterpose_core.contract.datasets import ImportCreate
from counterpose_core.errors import InvalidRequest, ShardUnreadable
from counterpose_gateway.imports import importer as importing
from counterpose_gateway.imports import parquet_files, tar_shards
from counterpose_gateway.imports import watch as watching
from counterpose_gateway.imports.storage import Storage
from counterpose_gateway.records.imports import LeasedImport
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledgers import Clock
from fakes.processes import poll_until
from fakes.shards import png, sample, tar, write_files, write_shards

pytestmark = pytest.mark.asyncio(loop_scope="module")

HIDDEN = tar([("._1.png", b"")])[:512]
OF_NO_SAMPLE: dict[str, Callable[[], bytes]] = {
    "hidden members": lambda: HIDDEN,
    "folders": lambda: folder_header("a"),
    "fields of one sample": lambda: tar([("1.mp3", b"")])[:512],
    "a second image of one sample": lambda: tar([("1.left.png", b"")])[:512],
    "notes for all members": lambda: note_header(),
}
"""A member that gives no sample, however often it comes."""


def folder_header(name: str) -> bytes:
    header = tarfile.TarInfo(name)
    header.type = tarfile.DIRTYPE
    return header.tobuf()


def note_header() -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("._1"))
    return tarfile.TarInfo.create_pax_global_header({"comment": "x"}) + written.getvalue()[:512]


@pytest.fixture(scope="module")
def hours() -> Clock:
    return Clock()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory, hours: Clock) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path_factory.mktemp("gateway"), hours, import_from=("memory://",)) as opened:
        yield opened


class Endless(io.RawIOBase):
    """A file of so many bytes as it says, which repeats one member as long as somebody reads."""

    def __init__(self, member: bytes) -> None:
        self._member, self._at, self.read_bytes = member, 0, 0

    def close(self) -> None:
        """Stay open: it is read again."""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset if whence == io.SEEK_SET else 2**60
        return self._at

    def read(self, size: int = -1) -> bytes:
        assert size > 0
        self.read_bytes += size
        return (self._member * (size // len(self._member) + 1))[:size]


async def started(gateway: FakeGateway, name: str, url: str) -> None:
    answer = await gateway.http.post(f"/v1/datasets/{name}/import", json={"url": url})
    assert answer.status_code == 202


async def imported(gateway: FakeGateway, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await gateway.http.get(f"/v1/datasets/{name}")).json()["imported"]
    return found


async def worked_off(gateway: FakeGateway, hours: Clock) -> None:
    importer = gateway.importer()
    for _ in range(5):
        while (work := await importer.lease()) is not None:
            await importer.work(work)
        hours.now += 60


async def leased(importer: importing.Importer) -> LeasedImport:
    found = await importer.lease()
    assert found is not None
    return found


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Endless]:
    """Let all shards of a name go on for ever."""

    def of(kind: str) -> Endless:
        file, opened = Endless(OF_NO_SAMPLE[kind]()), Storage.open

        def opening(self: Storage, url: str) -> Any:
            return file if url.endswith("endless.tar") else opened(self, url)

        monkeypatch.setattr(Storage, "open", opening)
        return file

    return of


@pytest.mark.fault("B65", "T21")
@pytest.mark.parametrize("kind", OF_NO_SAMPLE)
async def test_a_shard_without_end_or_sample_ends_with_its_import(
    gateway: FakeGateway, hours: Clock, name: str, kind: str, endless: Callable[[str], Endless],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("counterpose_gateway.runs.renewal.RENEW_AT_MOST_SECONDS", 0.05)
    url = write_files(f"memory://{name}", {"endless.tar": tar(sample(1, "sled"))})
    await started(gateway, name, f"{url}/endless.tar")
    file, importer = endless(kind), gateway.importer()
    await importer.work(await leased(importer))
    work = asyncio.create_task(importer.work(await leased(importer)))
    await poll_until(lambda: file.read_bytes > 0)
    gateway.ledger.imports.cancel(name)
    async with asyncio.timeout(60):
        await work
    # Its thread has ended, too.
    read = file.read_bytes
    await asyncio.sleep(0.05)
    assert file.read_bytes == read
    assert (await imported(gateway, name))["problem"]["code"] == "cancelled"
    # The same worker imports for others.
    other = f"{name}-other"
    await started(gateway, other, write_shards(f"memory://{other}", 1, 2, ["sled"]))
    await worked_off(gateway, hours)
    assert (await imported(gateway, other))["state"] == "done"


@pytest.mark.fault("B65")
async def test_a_shard_that_gives_nothing_for_long_is_unreadable_though_nobody_cancels_it(
    gateway: FakeGateway, hours: Clock, name: str, endless: Callable[[str], Endless],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(watching, "SILENT_SECONDS", 0.05)
    url = write_files(f"memory://{name}", {"endless.tar": tar(sample(1, "sled"))})
    await started(gateway, name, f"{url}/endless.tar")
    endless("hidden members")
    await worked_off(gateway, hours)
    problem = (await imported(gateway, name))["problem"]
    assert problem["code"] == "shard-unreadable"
    assert "was read for 0.05 s without an image or a label" in problem["detail"]


@pytest.mark.fault("T21")
async def test_a_long_shard_is_given_back_for_the_turns_of_others_and_loses_nothing(
    gateway: FakeGateway, hours: Clock, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "PART", 2)
    monkeypatch.setattr(importing, "TURN_SECONDS", 0.0)
    long, short = f"{name}-long", f"{name}-short"
    await started(gateway, long, write_shards(f"memory://{long}", 1, 7, ["sled"]))
    importer = gateway.importer()
    for _ in range(2):
        await importer.work(await leased(importer))
    assert (await imported(gateway, long))["images"] == 2
    # As one of another tenant, whose turn it is now.
    theirs = gateway.ledger.of("globex")
    theirs.datasets.create(short, None)
    theirs.imports.create(
        short, ImportCreate(url=write_shards(f"memory://{short}", 1, 1, ["boat"])), "webdataset"
    )
    await worked_off(gateway, hours)
    assert (await imported(gateway, long))["state"] == "done"
    assert [source.filename for source in gateway.ledger.datasets.sources(long)] == [
        f"shard-000000.tar/{number:06d}.png" for number in range(7)
    ]
    assert theirs.datasets.get(short).n_sources == 1


def footer_of(columns: int) -> bytes:
    """A Parquet file that says of so many columns three bytes each, and has none (Thrift's compact form)."""
    root, leaf = b"\x48\x01s\x15\x02\0", b"\x15\x02\x25\x00\x18\x01a\0"
    group = b"\x19\xfc" + varint(columns) + b"\x26\x08\0" * columns + b"\x16\x02\x16\x02\0"
    footer = b"\x15\x02\x19\x2c" + root + leaf + b"\x16\x02\x19\x1c" + group + b"\0"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


@pytest.mark.fault("B65")
async def test_what_a_parquet_file_says_of_a_million_columns_is_not_read() -> None:
    """It would take 230 times its bytes."""
    data, request = footer_of(800_000), ImportCreate(url="memory://a.parquet")
    began = time.process_time()
    with pytest.raises(ShardUnreadable, match=r"has 24000\d\d bytes about its groups of rows"):
        list(parquet_files.read_parquet(io.BytesIO(data), 0, "a.parquet", None, request))
    assert time.process_time() - began < 0.3
    # One of few columns is read as far as it is one.
    with pytest.raises((ShardUnreadable, InvalidRequest)):
        list(parquet_files.read_parquet(io.BytesIO(footer_of(10)), 0, "a.parquet", None, request))


@pytest.mark.fault("B65")
@pytest.mark.parametrize("entry", [b'{"url":"a"}', b"{}", b'{"url":"a","b":{}}'])
async def test_an_index_of_very_many_shards_is_refused_before_they_are_made(name: str, entry: bytes) -> None:
    many = b'{"shardlist":[' + b",".join([entry] * (tar_shards.MOST_LISTED + 1)) + b"]}"
    url = f"{write_files(f'memory://{name}', {'index.json': many})}/index.json"
    began = time.process_time()
    with pytest.raises(InvalidRequest, match="lists more than 250000 shards"):
        next(tar_shards.find_shards(url, Storage(["memory://"]), 0))
    assert time.process_time() - began < 0.3


def parquet(**columns: Any) -> bytes:
    return written(pyarrow.table(columns))


def written(table: pyarrow.Table) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


def letters(data: bytes) -> pyarrow.Array:
    """A text that holds any bytes."""
    ends = pyarrow.py_buffer(struct.pack("<ii", 0, len(data)))
    return pyarrow.Array.from_buffers(pyarrow.string(), 1, [None, ends, pyarrow.py_buffer(data)])


def named_twice(column: str) -> bytes:
    columns = {"image": [png(1)], "label": ["sled"], "mask": [png(2)]}
    names = [*columns, column]
    return written(pyarrow.Table.from_arrays([pyarrow.array(columns[each]) for each in names], names=names))


def negative_tar() -> bytes:
    """A tar whose member has -1 bytes."""
    header = bytearray(tarfile.TarInfo("1.png").tobuf(format=tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 12
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return bytes(header) + bytes(10_240)


def noted(text: bytes) -> bytes:
    return tar([("1.png", png(1)), ("1.json", text)])


DAY = pyarrow.array([2**30], pyarrow.int32()).cast(pyarrow.date32())
UNEXPECTED: dict[str, tuple[Callable[[], bytes], str]] = {
    "letters.parquet": (lambda: parquet(image=[png(1)], label=letters(b"\xff")), "of the type string that"),
    "day.parquet": (
        lambda: parquet(image=[png(1)], label=DAY),
        "of the type date32[day] that",
    ),
    "images.parquet": (lambda: named_twice("image"), "has 2 columns 'image'; rename all but one"),
    "labels.parquet": (lambda: named_twice("label"), "has 2 columns 'label'"),
    "masks.parquet": (lambda: named_twice("mask"), "has 2 columns 'mask'"),
    "list.parquet": (lambda: parquet(image=[[png(1)]], label=["sled"]), "holds no bytes of an image"),
    "none.parquet": (
        lambda: parquet(image=[png(1)], label=pyarrow.array([None], pyarrow.string())),
        "neither a name nor",
    ),
    "large.parquet": (
        lambda: parquet(image=[png(1)], label=pyarrow.array([2**63], pyarrow.uint64())),
        "a number without a name",
    ),
    "digits.tar": (lambda: noted(b'{"label": ' + b"9" * 5000 + b"}"), "is no JSON"),
    "deep.tar": (lambda: noted(b'{"label": ' + b"[" * 200_000 + b"}"), "is no JSON"),
    "lone.tar": (lambda: noted(b'{"label": "\\ud800 x"}'), "has control or hidden characters"),
    "nan.tar": (lambda: noted(b'{"label": NaN}'), "neither a name nor a number"),
    "negative.tar": (negative_tar, "ends after 0 of -1 bytes"),
}
"""Shards, and what is said of them."""


@pytest.mark.fault("B47")
@pytest.mark.parametrize("shard", UNEXPECTED)
async def test_a_value_that_nobody_expects_is_named_and_no_internal_error(
    gateway: FakeGateway, hours: Clock, name: str, shard: str
) -> None:
    make, said = UNEXPECTED[shard]
    url = write_files(f"memory://{name}", {shard: make()})
    await started(gateway, name, f"{url}/{shard}")
    await worked_off(gateway, hours)
    found = await imported(gateway, name)
    assert found["problem"]["code"] in {"dataset-empty", "invalid-request", "shard-unreadable"}
    assert said in found["problem"]["detail"]
