"""Samples of tar shards as people write them: their own image and label, or a refusal that says why."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

import datasets
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from counterpose_core.contract.datasets import ImportCreate, RejectedSource
from counterpose_core.errors import InvalidRequest, ShardUnreadable
from counterpose_gateway.images.folder import RawSource
from counterpose_gateway.imports import parquet_files
from counterpose_gateway.imports.storage import Storage, layout_of
from counterpose_gateway.imports.tar_shards import class_names, read_tar
from fakes.shards import Members, png, tar, write_files

LITTER = b"\0\x05\x16\x07" + b"\0" * 60
"""How macOS begins the files that it writes beside others."""


def read(members: Members, names: Sequence[str] | None = None) -> list[tuple[str, str]]:
    """The file name and label of each sample, or the name and reason of a refusal."""
    sources = (each.source for each in read_tar(io.BytesIO(tar(members)), 0, "s.tar", names, "label"))
    return [
        (source.filename, source.detail if isinstance(source, RejectedSource) else source.label)
        for source in sources
    ]


def image_of(members: Members) -> bytes | None:
    """The content of the only sample's image."""
    [sample] = read_tar(io.BytesIO(tar(members)), 0, "s.tar", ["cat"], "label")
    return sample.source.content if not isinstance(sample.source, RejectedSource) else None


@pytest.mark.parametrize(
    "hidden",
    [
        "._{}.png",
        "._{}.cls",
        "__MACOSX/._{}.png",
        ".ipynb_checkpoints/{}-checkpoint.png",
        ".DS_Store",
        "./._{}.cls",
    ],
)
def test_hidden_members_are_passed_over(hidden: str) -> None:
    members = [
        member
        for number in (1, 2)
        for member in (
            (hidden.format(number), LITTER), (f"{number}.png", png(number)), (f"{number}.cls", b"cat"),
        )
    ]  # fmt: skip
    assert read(members) == [("s.tar/1.png", "cat"), ("s.tar/2.png", "cat")]
    # Also between the members of one sample.
    assert read([members[1], members[0], members[2]]) == [("s.tar/1.png", "cat")]


def test_a_tar_of_the_folder_itself_is_read_by_the_same_names() -> None:
    members = [("./1.PNG", png(1)), ("./1.CLS", b"0\n"), ("./2.jpg", png(2)), ("./2.cls", b"1")]
    assert read(members, ["cat", "dog"]) == [("s.tar/1.PNG", "cat"), ("s.tar/2.jpg", "dog")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("a red cat on a mat", {"caption": "a red cat on a mat", "status": "success"}),
        (" two dogs\n", {"caption": "two  dogs"}),
        ("two dogs", {"text": "two dogs"}),
        ("two dogs that run along a beach", None),
        ("two dogs that run along a beach", {"camera": "x"}),
    ],
)
def test_a_caption_is_no_label(words: str, said: dict[str, str] | None) -> None:
    members = [("1.png", png(1)), ("1.txt", words.encode())]
    members += [] if said is None else [("1.json", json.dumps(said).encode())]
    [(_, refusal)] = read(members)
    assert refusal.startswith("'1' has no label: its .txt is a caption; write labels to .cls")
    assert read([*members, ("1.cls", b"cat")]) == [("s.tar/1.png", "cat")]


def test_words_that_the_import_names_are_a_label_whatever_stands_beside_them() -> None:
    name = "the tall ships of the Baltic Sea"
    members = [
        ("1.png", png(1)),
        ("1.txt", name.encode()),
        ("1.json", json.dumps({"caption": name}).encode()),
    ]
    assert read(members, ["boat", name]) == [("s.tar/1.png", name)]


@pytest.mark.parametrize("label", ["tench, Tinca tinca", "black and tan coonhound", "cat"])
def test_a_text_as_long_as_a_class_name_is_a_label(label: str) -> None:
    members = [("1.png", png(1)), ("1.txt", label.encode()), ("1.json", b'{"camera": "x"}')]
    assert read(members) == [("s.tar/1.png", label)]


@pytest.mark.parametrize("others", ["1.meta.json", "1.a.json 1.b.json", "1.note.cls", "1.prompt.txt"])
@pytest.mark.parametrize("first", [True, False])
def test_a_longer_ending_is_another_field_of_the_sample(others: str, first: bool) -> None:
    own = [("1.json", b'{"label": "cat"}')]
    beside = [(name, b'{"camera": "x"}') for name in others.split()]
    if others.endswith((".cls", ".txt")):
        own = [("1" + others[-4:], b"cat")]
    members = [*(beside + own if first else own + beside), ("1.png", png(1))]
    assert read(members) == [("s.tar/1.png", "cat")]


def test_a_longer_ending_counts_where_the_sample_has_no_other() -> None:
    assert read([("1.input.png", png(1)), ("1.label.cls", b"cat")]) == [("s.tar/1.input.png", "cat")]
    assert read([("1.png", png(1)), ("1.left.json", b'{"label": "cat"}')]) == [("s.tar/1.png", "cat")]


@pytest.mark.parametrize("first", [True, False])
def test_a_mask_is_not_the_image(first: bool) -> None:
    mask, own = ("1.depth.png", png(2)), ("1.png", png(1))
    assert image_of([*((mask, own) if first else (own, mask)), ("1.cls", b"cat")]) == png(1)


@pytest.mark.parametrize("first", [True, False])
def test_a_mask_comes_with_its_image(first: bool) -> None:
    mask, own = ("1.mask.png", png(2)), ("1.png", png(1))
    members = [*((mask, own) if first else (own, mask)), ("1.cls", b"cat")]
    [sample] = read_tar(io.BytesIO(tar(members)), 0, "s.tar", None, "label")
    assert isinstance(sample.source, RawSource)
    assert (sample.source.content, sample.source.mask) == (png(1), png(2))
    [(_, refusal)] = read([*members, ("1.mask.jpg", png(3))])
    assert "two masks, 's.tar/1.mask.png' and '1.mask.jpg'" in refusal


def test_a_parquet_file_may_have_masks(tmp_path: Path) -> None:
    cells = [{"bytes": png(2), "path": None}, None, {"bytes": None, "path": "/home/2.png"}]
    rows = {"image": [{"bytes": png(1), "path": None}] * 3, "label": ["cat"] * 3, "mask": cells}
    pyarrow.parquet.write_table(pyarrow.table(rows), tmp_path / "file.parquet")
    with (tmp_path / "file.parquet").open("rb") as opened:
        request = ImportCreate(url="file:///file.parquet")
        one, two, three = (
            each.source for each in parquet_files.read_parquet(opened, 0, "file.parquet", None, request)
        )
    assert isinstance(one, RawSource)
    assert isinstance(two, RawSource)
    assert (one.content, one.mask, two.mask) == (png(1), png(2), None)
    assert isinstance(three, RejectedSource)
    assert "no bytes of its mask" in three.detail


@pytest.mark.parametrize("pair", ["1.jpg 1.png", "1.left.png 1.right.png"])
def test_a_sample_of_two_images_is_refused_by_both_names(pair: str) -> None:
    one, two = pair.split()
    [(_, refusal)] = read([(one, png(1)), (two, png(2)), ("1.cls", b"cat")])
    assert f"two images, 's.tar/{one}' and '{two}'" in refusal
    told = read([(one, png(1)), (two, png(2)), ("1.webp", png(3)), ("1.cls", b"cat")])[0][1]
    assert told == "cat" if "left" in pair else "two images" in told


def test_a_json_without_a_label_says_what_it_has() -> None:
    [(_, refusal)] = read([("1.png", png(1)), ("1.json", b'{"category": "cat", "id": 7}')])
    assert (
        refusal == "'1' has no label: no .cls, no .txt, and no 'label' in a .json, which has 'category', 'id'"
    )


@pytest.mark.parametrize(
    ("label", "said"),
    [("3", "dog"), (3, "dog"), ("cat", "cat"), (3.0, "neither"), (None, "neither"), (["cat"], "neither"),
     (True, "neither"), ({"id": 3}, "neither"), ("-1", "has no name"), (9, "has no name")],
)  # fmt: skip
def test_a_label_in_json_is_a_name_or_a_number_or_refused(label: object, said: str) -> None:
    members = [("1.png", png(1)), ("1.json", json.dumps({"label": label}).encode())]
    [(_, told)] = read(members, ["cat", "cow", "hen", "dog"])
    assert said in told


def test_members_that_do_not_stand_together_are_refused_one_by_one() -> None:
    told = read([("1.png", png(1)), ("2.png", png(2)), ("1.cls", b"cat"), ("2.cls", b"dog")])
    assert [name for name, _ in told] == ["s.tar/1", "s.tar/2"] * 2
    assert all("no label" in reason or "no PNG" in reason for _, reason in told)


@pytest.mark.parametrize("ending", [".tar", ".TAR", ".tar.gz", ".tgz", ".tbz2", ".tar.zst"])
def test_every_ending_of_a_tar_is_read_as_one(ending: str) -> None:
    assert layout_of(ImportCreate(url=f"s3://bucket/shard-{{00..09}}{ending}")) == "webdataset"


def test_an_empty_line_among_class_names_does_not_move_the_numbers(name: str) -> None:
    shard = f"memory://{name}/one.tar"
    storage = Storage(["memory://"])
    write_files(f"memory://{name}", {"classes.txt": "\ufeffcat\r\ndog\r\n\r\n".encode()})
    assert class_names(shard, storage) == ["cat", "dog"]
    write_files(f"memory://{name}", {"classes.txt": b"cat\n\ndog\n"})
    with pytest.raises(InvalidRequest, match=r"line 2 of '.*classes\.txt' names no class"):
        class_names(shard, storage)
    write_files(f"memory://{name}", {"classes.txt": "cat\ncaf\u00e9\n".encode("latin-1")})
    with pytest.raises(InvalidRequest, match="not UTF-8"):
        class_names(shard, storage)


def test_numbers_of_a_parquet_file_are_called_as_the_file_says() -> None:
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["dog", "cat"])}
    )
    written = io.BytesIO()
    rows = {"image": [{"bytes": png(1), "path": None}], "label": [0]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(written)
    labels = []
    for names, classes in (
        (["cat", "dog"], None), (["cat", "dog"], ["cat", "dog"]), (["hound", "kitten"], ["hound", "kitten"]),
        (None, None),
    ):  # fmt: skip
        request = ImportCreate(url="memory://a/b.parquet", classes=classes)
        [sample] = parquet_files.read_parquet(io.BytesIO(written.getvalue()), 0, "b.parquet", names, request)
        labels.append(None if isinstance(sample.source, RejectedSource) else sample.source.label)
    assert labels == ["dog", "dog", "hound", "dog"]


@pytest.mark.parametrize("size", [2**70, 2**40, 1 << 20])
def test_a_member_that_is_said_to_end_behind_the_file_is_refused_at_once(size: int) -> None:
    # A header of ten kilobytes; the library would walk there in steps of as many.
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as written:
        member = tarfile.TarInfo("1.txt")
        member.pax_headers = {"size": str(size)}
        written.addfile(member)
    began = time.process_time()
    with pytest.raises(ShardUnreadable, match=f"ends before its member '1.txt' of {size} bytes does"):
        list(read_tar(io.BytesIO(buffer.getvalue()), 0, "s.tar", ["cat"], "label"))
    assert time.process_time() - began < 1.0


def parquet_of(rows: int, content: bytes) -> bytes:
    """Rows of one image, which the file holds once."""
    cells = pyarrow.array([{"bytes": content}], pyarrow.struct([("bytes", pyarrow.binary())]))
    indices = pyarrow.array([0] * rows, pyarrow.int32())
    images = cells.field("bytes").dictionary_encode()
    shared = pyarrow.DictionaryArray.from_arrays(indices, images.dictionary)
    buffer = io.BytesIO()
    table = pyarrow.table({"image": shared, "label": ["cat"] * rows})
    pyarrow.parquet.write_table(
        table, buffer, compression="zstd", dictionary_pagesize_limit=1 << 30, store_schema=False
    )
    return buffer.getvalue()


def test_rows_that_share_one_value_are_read_one_by_one() -> None:
    file = parquet_of(64, np.random.default_rng(0).bytes(2_000_000))
    request = ImportCreate(url="memory://a.parquet")
    pyarrow.default_memory_pool().release_unused()
    before = pyarrow.total_allocated_bytes()
    most = 0
    for each in parquet_files.read_parquet(io.BytesIO(file), 0, "a.parquet", ["cat"], request):
        assert not isinstance(each.source, RejectedSource)
        most = max(most, pyarrow.total_allocated_bytes() - before)
    assert most < 16_000_000


@pytest.mark.fault("B65")
def test_images_that_inflate_to_many_times_their_size_are_refused() -> None:
    file = parquet_of(1, bytes(65 << 20))
    with pytest.raises(ShardUnreadable, match=r"inflate from \d+ to 6\d+ bytes; write PNG"):
        list(parquet_files.read_parquet(
            io.BytesIO(file), 0, "a.parquet", ["cat"], ImportCreate(url="memory://a.parquet")
        ))  # fmt: skip


@pytest.mark.fault("B65")
def test_names_of_a_billion_parquet_files_are_not_listed_first() -> None:
    request = ImportCreate(url="memory://{0..999999999}.parquet")
    shards = parquet_files.find_shards(request.url, request, Storage([]), 1)
    assert next(shards).path == "memory://1.parquet"


@pytest.mark.parametrize(
    "features", [b"[" * 100_000, b'{"info": {"features": [1]}}', b'{"info": {"features": "ab"}}']
)
def test_what_the_datasets_library_notes_is_passed_over_where_it_is_of_another_form(features: bytes) -> None:
    table = pyarrow.table({"image": [png(1)], "label": ["cat"]}).replace_schema_metadata(
        {"huggingface": features}
    )
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    [sample] = parquet_files.read_parquet(
        io.BytesIO(buffer.getvalue()), 0, "a.parquet", None, ImportCreate(url="memory://a.parquet")
    )
    assert not isinstance(sample.source, RejectedSource)


def test_a_parquet_file_with_a_damaged_footer_is_unreadable() -> None:
    file = bytearray(parquet_of(2, png(1)))
    length = int.from_bytes(file[-8:-4], "little")
    file[-8 - length : -8] = b"\xff" * length
    with pytest.raises(ShardUnreadable, match="is no Parquet file"):
        list(parquet_files.read_parquet(
            io.BytesIO(file), 0, "a.parquet", ["cat"], ImportCreate(url="memory://a.parquet")
        ))  # fmt: skip


@pytest.mark.parametrize(
    "headers",
    [
        {"GNU.sparse.map": "a,b", "GNU.sparse.size": "1"},
        {"GNU.sparse.size": "x"},
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1"},
        {"size": "x"},
    ],
)
def test_a_sparse_header_that_cannot_be_read_makes_the_shard_unreadable(headers: dict[str, str]) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as written:
        member = tarfile.TarInfo("1.txt")
        member.pax_headers = headers
        member.size = 512
        written.addfile(member, io.BytesIO(b"map" * 200))
    try:
        samples = list(read_tar(io.BytesIO(buffer.getvalue()), 0, "s.tar", ["cat"], "label"))
    except ShardUnreadable:
        return
    assert all(isinstance(each.source, RejectedSource) for each in samples)
