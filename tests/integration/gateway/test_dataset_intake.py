"""Datasets registered from folders on the gateway's machine, and how the ledger distinguishes sources."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.datasets import RejectedSource, SourceUpload
from counterpose_core.errors import DatasetEmpty, InvalidRequest, UnknownDataset
from counterpose_core.images.codecs import decode_image, encode_png
from counterpose_gateway.images import intake as datasets
from counterpose_gateway.images.folder import read_folder
from counterpose_gateway.images.intake import register_folder
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.main import main
from counterpose_gateway.records.sources import NewSource


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(f"memory://{tmp_path}")


def image(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    return encode_png(pixels)


def write(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image(number))
    return folder


def new_source(number: int, **changes: str) -> NewSource:
    fields: dict[str, Any] = {
        "image": f"{number:064x}",
        "label": "sled",
        "filename": f"{number}.png",
    } | changes
    return NewSource(caption=None, width=8, height=8, **fields)


def test_a_folder_per_class_becomes_a_dataset(tmp_path: Path, ledger: Ledger, store: BlobStore) -> None:
    folder = write(tmp_path / "demo", "sled/a.png", "boat/b.PNG", "boat/c.webp.txt", "boat/deep/d.png")
    register_folder("demo", folder, ledger, store)
    dataset = ledger.datasets.get("demo")
    assert (dataset.n_sources, dataset.classes) == (2, ["boat", "sled"])
    assert [(one.filename, one.code) for one in dataset.rejected] == [("boat/deep", "invalid-request")]
    found = {source.filename: source for source in ledger.datasets.sources("demo")}
    assert found["sled/a.png"].label == "sled"
    assert (found["sled/a.png"].width, found["sled/a.png"].height) == (10, 12)
    np.testing.assert_array_equal(decode_image(store.get(found["sled/a.png"].image)), decode_image(image(0)))


def test_registering_again_adds_only_new_images(tmp_path: Path, ledger: Ledger, store: BlobStore) -> None:
    folder = write(tmp_path / "demo", "sled/a.png")
    register_folder("demo", folder, ledger, store)
    before = ledger.datasets.get("demo")
    register_folder("demo", folder, ledger, store)
    assert ledger.datasets.get("demo") == before
    write(folder, "sled/a.png", "boat/b.png")
    register_folder("demo", folder, ledger, store)
    after = ledger.datasets.get("demo")
    assert (after.n_sources, after.digest != before.digest) == (2, True)


def test_moving_images_keeps_their_identity(tmp_path: Path, ledger: Ledger, store: BlobStore) -> None:
    register_folder("one", write(tmp_path / "one", "sled/a.png", "sled/b.png"), ledger, store)
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "sled").rename(tmp_path / "two" / "sled")
    (tmp_path / "two" / "sled" / "a.png").rename(tmp_path / "two" / "sled" / "z.png")
    register_folder("two", tmp_path / "two", ledger, store)
    assert ledger.datasets.get("one").digest == ledger.datasets.get("two").digest


def test_captions_are_registered_only_on_request(tmp_path: Path, ledger: Ledger, store: BlobStore) -> None:
    folder = write(tmp_path / "demo", "sled/a.png", "b.png")
    notes = [
        {"file_name": "sled/a.png", "caption": "a sled"},
        {"file_name": "b.png", "label": "boat", "caption": "a boat"},
    ]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, notes)), encoding="utf-8")
    register_folder("plain", folder, ledger, store)
    register_folder("captioned", folder, ledger, store, with_captions=True)
    assert [source.caption for source in ledger.datasets.sources("plain")] == [None, None]
    assert {(source.label, source.caption) for source in ledger.datasets.sources("captioned")} == {
        ("sled", "a sled"), ("boat", "a boat"),
    }  # fmt: skip


@pytest.mark.fault("B4")
def test_a_bad_file_is_reported_and_the_others_are_accepted(
    tmp_path: Path, ledger: Ledger, store: BlobStore
) -> None:
    folder = write(tmp_path / "demo", "sled/a.png", "boat/b.png", "moon/c.png")
    (folder / "sled" / "bad.png").write_bytes(b"no image")
    (folder / "classes.json").write_text('["sled", "boat"]', encoding="utf-8")
    register_folder("demo", folder, ledger, store)
    dataset = ledger.datasets.get("demo")
    assert (dataset.n_sources, dataset.classes) == (2, ["sled", "boat"])
    assert {(found.filename, found.code) for found in dataset.rejected} == {
        ("sled/bad.png", "image-undecodable"), ("moon/c.png", "class-map-mismatch"),
    }  # fmt: skip


@pytest.mark.fault("B47")
def test_an_unreadable_or_oversized_file_is_reported(
    tmp_path: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "demo", "sled/locked.png", "sled/large.png")
    read_bytes = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.name == "locked.png":
            raise PermissionError(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    monkeypatch.setattr(datasets, "LARGEST_FILE", 10)
    taken, rejected = datasets.take_in(read_folder(folder), store, None)
    assert taken == []
    assert {(found.filename, found.code) for found in rejected} == {
        ("sled/locked.png", "image-undecodable"), ("sled/large.png", "image-too-large"),
    }  # fmt: skip


@pytest.mark.fault("B47")
def test_a_folder_without_a_usable_image_is_refused(tmp_path: Path, ledger: Ledger, store: BlobStore) -> None:
    with pytest.raises(InvalidRequest, match="not a folder"):
        register_folder("demo", tmp_path / "nowhere", ledger, store)
    (tmp_path / "empty" / "sled").mkdir(parents=True)
    with pytest.raises(DatasetEmpty, match="empty"):
        register_folder("demo", tmp_path / "empty", ledger, store)


@pytest.mark.fault("B47")
def test_a_loop_of_links_terminates(tmp_path: Path) -> None:
    folder = write(tmp_path / "demo", "sled/a.png")
    (folder / "loop").symlink_to(folder)
    assert [source.filename for source in read_folder(folder)] == ["sled/a.png"]


@pytest.mark.fault("B47")
def test_a_folder_or_a_broken_link_that_is_named_like_an_image_is_none(tmp_path: Path) -> None:
    folder = write(tmp_path / "demo", "sled/a.png")
    (folder / "sled" / "b.png").mkdir()
    (folder / "sled" / "c.png").symlink_to(folder / "nowhere.png")
    assert [source.filename for source in read_folder(folder)] == ["sled/a.png"]


@pytest.mark.parametrize("line", ["{", "[]", "{}", "3", '{"file_name": ["a"]}'])
def test_malformed_metadata_is_refused_by_line(tmp_path: Path, line: str) -> None:
    folder = write(tmp_path / "demo", "sled/a.png")
    (folder / "metadata.jsonl").write_text('{"file_name": "sled/a.png"}\n' + line, encoding="utf-8")
    with pytest.raises(InvalidRequest, match="line 2"):
        list(read_folder(folder))


@pytest.mark.parametrize("text", ["{}", "[1]", '"sled"', "["])
def test_malformed_classes_are_refused(tmp_path: Path, ledger: Ledger, store: BlobStore, text: str) -> None:
    folder = write(tmp_path / "demo", "sled/a.png")
    (folder / "classes.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRequest, match="list of class names"):
        register_folder("demo", folder, ledger, store)


@pytest.mark.fault("B24")
def test_sources_differ_by_content_label_and_occurrence(ledger: Ledger) -> None:
    ledger.datasets.create("demo", None)
    sources = [
        new_source(1), new_source(1), new_source(1, filename="copy.png"), new_source(1, label="boat"),
        new_source(2),
    ]  # fmt: skip
    assert ledger.datasets.add("demo", sources[1:]) == 4
    assert ledger.datasets.add("demo", sources) == 1
    assert ledger.datasets.add("demo", sources) == 0
    assert len({source.id for source in ledger.datasets.sources("demo")}) == 5
    filenames = ["1.png", "copy.png", "1.png", "2.png", "1.png"]
    assert [source.filename for source in ledger.datasets.sources("demo")] == filenames


def test_rejections_are_recorded_once_per_file(ledger: Ledger) -> None:
    ledger.datasets.create("demo", None)
    bad = RejectedSource(filename="bad.png", code="image-undecodable", detail="broken")
    for _ in "12":
        ledger.datasets.add("demo", [], [bad])
    assert ledger.datasets.get("demo").rejected == [bad]


@pytest.mark.parametrize("verb", ["get", "sources", "has_fixed_classes"])
def test_an_error_names_the_unknown_dataset(ledger: Ledger, verb: str) -> None:
    with pytest.raises(UnknownDataset, match="'nobody'"):
        getattr(ledger.datasets, verb)("nobody")


def test_the_command_registers_a_folder_and_lists_rejected_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path / "state"))
    folder = write(tmp_path / "demo", "sled/a.png", "boat/b.png")
    (folder / "sled" / "bad.png").write_bytes(b"no image")
    assert main(["register-dataset", "demo", str(folder), "--tenant", "acme"]) == 0
    ledger = Ledger(f"sqlite:///{tmp_path / 'state' / 'ledger.db'}")
    assert [one.name for one in ledger.datasets.all()] == ["acme/demo"]
    ledger.close()
    printed = capsys.readouterr()
    assert printed.out == "demo: 2 images of 2 classes\n"
    assert printed.err.startswith("sled/bad.png: image-undecodable")


@pytest.mark.parametrize(
    "arguments",
    [["register-dataset", "../demo", "."], ["register-dataset", "demo", "/nowhere"], ["serve"], ["work"]],
)
def test_a_failed_command_prints_one_line_and_exits_with_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))
    assert main(arguments) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("counterpose-gateway: ")
    assert "Traceback" not in printed


def test_groups_are_read_from_a_folders_metadata(tmp_path: Path, ledger: Ledger, store: BlobStore) -> None:
    lines = write(tmp_path / "lines", "sled/a.png", "sled/b.png", "boat/c.png")
    notes = [{"file_name": f"sled/{name}.png", "group": "video-1", "fps": 25} for name in "ab"]
    (lines / "metadata.jsonl").write_text("\n".join(map(json.dumps, notes)), encoding="utf-8")
    table = write(tmp_path / "table", "sled/a.png", "sled/b.png", "boat/c.png")
    (table / "metadata.csv").write_text(
        "\ufefffile_name,group,label\nsled/a.png,video-1,\nsled/b.png,video-1,\nboat/c.png,,boat\n",
        encoding="utf-8",
    )
    register_folder("none", write(tmp_path / "none", "sled/a.png", "sled/b.png", "boat/c.png"), ledger, store)
    for name, folder in (("lines", lines), ("table", table)):
        register_folder(name, folder, ledger, store)
        found = {source.filename: source.group for source in ledger.datasets.sources(name)}
        assert found == {"sled/a.png": "video-1", "sled/b.png": "video-1", "boat/c.png": None}
        assert ledger.datasets.group_classes(name) == {"video-1": "sled"}
        assert ledger.datasets.get(name).digest != ledger.datasets.get("none").digest


def test_a_table_that_names_no_image_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "demo", "sled/a.png")
    (folder / "metadata.csv").write_text("name,group\nsled/a.png,video-1\n", encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"line 2 of .*metadata\.csv' is not .*: it names no image"):
        list(read_folder(folder))


def test_a_table_may_have_cells_without_a_column(tmp_path: Path) -> None:
    folder = write(tmp_path / "demo", "sled/a.png")
    (folder / "metadata.csv").write_text("file_name,group\nsled/a.png,video-1,more,cells\n", encoding="utf-8")
    assert [source.group for source in read_folder(folder)] == ["video-1"]


def test_a_caption_that_is_no_text_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "demo", "sled/a.png")
    line = '{"file_name": "sled/a.png", "caption": 3}'
    (folder / "metadata.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"line 1 of .*: 'caption' has to be text"):
        list(read_folder(folder))


def test_a_group_that_spans_classes_is_refused_by_name(
    tmp_path: Path, ledger: Ledger, store: BlobStore
) -> None:
    folder = write(tmp_path / "demo", "boat/a.png", "sled/b.png", "sled/c.png")
    (folder / "metadata.csv").write_text(
        "file_name,group\nboat/a.png,video-1\nsled/b.png,video-1\n", encoding="utf-8"
    )
    register_folder("demo", folder, ledger, store)
    assert [source.filename for source in ledger.datasets.sources("demo")] == ["boat/a.png", "sled/c.png"]
    [refused] = ledger.datasets.get("demo").rejected
    assert (refused.filename, refused.code, refused.detail) == (
        "sled/b.png",
        InvalidRequest.code,
        "the group 'video-1' has images of the classes 'boat' and 'sled'; give each class groups of its own",
    )


def test_a_group_is_of_the_class_that_the_dataset_knows_it_by(ledger: Ledger, store: BlobStore) -> None:
    ledger.datasets.create("demo", None)
    upload = {"content_base64": base64.b64encode(image(0)).decode(), "group": "video-1"}
    first = SourceUpload(filename="a.png", label="sled", **upload)
    assert datasets.add_uploads("demo", [first], ledger, store).added == 1
    with pytest.raises(InvalidRequest, match="the classes 'sled' and 'boat'") as refused:
        datasets.add_uploads("demo", [first.model_copy(update={"label": "boat"})], ledger, store)
    assert refused.value.pointer == "/sources/0/group"


def test_an_image_that_is_there_takes_the_group_it_comes_with(ledger: Ledger) -> None:
    ledger.datasets.create("demo", None)
    ledger.datasets.add("demo", [new_source(1), new_source(2)])
    before = ledger.datasets.get("demo")
    assert ledger.datasets.add("demo", [new_source(1, group="video-1")]) == 0
    assert [source.group for source in ledger.datasets.sources("demo")] == ["video-1", None]
    after = ledger.datasets.get("demo")
    assert (after.n_sources, after.digest != before.digest) == (2, True)
    ledger.datasets.add("demo", [new_source(1)])
    assert ledger.datasets.get("demo") == after


def test_ids_become_names_and_the_folder_s_own_names_come_first(
    tmp_path: Path, ledger: Ledger, store: BlobStore
) -> None:
    folder = write(tmp_path / "demo", "n02690373/a.png", "n03888257/b.png", "sled/c.png")
    notes = register_folder("ids", folder, ledger, store)
    assert ledger.datasets.get("ids").classes == ["airliner", "parachute", "sled"]
    assert len(notes) == 1
    assert "'n02690373' is 'airliner', 'n03888257' is 'parachute'" in notes[0]
    (folder / "names.json").write_text('{"n02690373": "airplane"}', encoding="utf-8")
    register_folder("names", folder, ledger, store)
    assert ledger.datasets.get("names").classes == ["airplane", "parachute", "sled"]
    (folder / "classes.json").write_text('["n02690373", "parachute", "sled"]', encoding="utf-8")
    (folder / "names.json").unlink()
    register_folder("listed", folder, ledger, store)
    assert ledger.datasets.get("listed").n_sources == 3
    assert {source.label for source in ledger.datasets.sources("listed")} == {
        "n02690373",
        "parachute",
        "sled",
    }


def test_an_id_without_a_name_is_refused_and_leaves_no_dataset(
    tmp_path: Path, ledger: Ledger, store: BlobStore
) -> None:
    folder = write(tmp_path / "demo", "n00007846/a.png", "sled/c.png")
    with pytest.raises(InvalidRequest, match="'n00007846' is a WordNet id"):
        register_folder("ids", folder, ledger, store)
    assert ledger.datasets.all() == []
    (folder / "metadata.jsonl").write_text(
        '{"file_name": "n00007846/a.png", "label": "person"}', encoding="utf-8"
    )
    assert register_folder("ids", folder, ledger, store) == []
    assert ledger.datasets.get("ids").classes == ["person", "sled"]
