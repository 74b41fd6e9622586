"""Folders of images: what is taken, what is left out and named, what the name of a dataset depends on."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from counterpose import Client
from counterpose._datasets import uploads
from counterpose._datasets.folders import folder_digest, images_in, read_captions
from counterpose._datasets.objects import dataset_object
from counterpose._datasets.uploads import Upload, none_taken
from counterpose_core.errors import DatasetEmpty, ImageUndecodable, InvalidRequest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two images of a bus, one of a sled."""
    for name in ("bus/1.png", "bus/2.JPG", "sled/1.webp"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path


def digest(folder: Path, captions: dict[str, str] | None = None) -> str:
    return folder_digest(images_in(folder, captions))


def test_each_folder_is_a_class_in_an_order_independent_of_the_disk(folder: Path) -> None:
    assert [image.name for image in images_in(folder)] == ["bus/1.png", "bus/2.JPG", "sled/1.webp"]
    assert [image.label for image in images_in(folder)] == ["bus", "bus", "sled"]


def test_files_that_are_not_images_are_ignored(folder: Path) -> None:
    (folder / "bus" / "notes.txt").write_text("no image")
    (folder / "loose.png").write_bytes(b"no class")
    (folder / "bus" / "deep").mkdir()
    (folder / "bus" / "deep" / "3.png").write_bytes(b"too deep")
    assert len(images_in(folder)) == 3


def test_an_empty_folder_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetEmpty, match=str(tmp_path)):
        images_in(tmp_path)


def test_captions_belong_to_the_images_they_name(folder: Path) -> None:
    found = images_in(folder, {"bus/2.JPG": "a red bus"})
    assert [image.caption for image in found] == [None, "a red bus", None]


def test_a_caption_without_an_image_is_named_in_the_error(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"'bus/3\.png'"):
        images_in(folder, {"bus/3.png": "a red bus"})


def test_captions_are_read_from_json_lines(tmp_path: Path) -> None:
    lines = [
        {"file_name": "bus/1.png", "caption": "a bus", "weather": "fog", "label": 3},
        {"file_name": "b", "caption": "c"},
    ]
    (tmp_path / "captions.jsonl").write_text("\n\n".join(map(json.dumps, lines)))
    assert read_captions(tmp_path / "captions.jsonl") == {"bus/1.png": "a bus", "b": "c"}


@pytest.mark.parametrize(
    "line",
    [
        "no json", "[]", '"text"', '{"file_name": "1.png"}', '{"caption": "x"}', "[" * 10**5,
        '{"file_name": "1.png", "caption": null}', '{"file_name": "1.png", "caption": 3}',
        '{"file_name": "1.png", "caption": " "}', '{"file_name": "1.png", "caption": "\\ud800"}',
    ],
)  # fmt: skip
def test_a_line_that_is_not_a_caption_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    good = json.dumps({"file_name": "bus/1.png", "caption": "a bus"})
    (tmp_path / "captions.jsonl").write_text(f"{good}\n{line}\n{good}\n")
    with pytest.raises(InvalidRequest, match="line 2"):
        read_captions(tmp_path / "captions.jsonl")


def test_two_captions_of_an_image_are_refused(tmp_path: Path) -> None:
    lines = [{"file_name": "bus/1.png", "caption": caption} for caption in ("a bus", "a red bus")]
    (tmp_path / "captions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InvalidRequest, match=r"line 2 .* gives 'bus/1\.png' a second caption"):
        read_captions(tmp_path / "captions.jsonl")


def test_captions_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe")
    for name in ("absent.jsonl", "latin.jsonl"):
        with pytest.raises(InvalidRequest, match=name):
            read_captions(tmp_path / name)


def test_uploads_are_cut_into_batches_of_32_in_order(tmp_path: Path) -> None:
    (tmp_path / "bus").mkdir()
    for number in range(70):
        (tmp_path / "bus" / f"{number:02}.png").write_bytes(bytes([number + 1]))
    batches = list(Upload(images_in(tmp_path)).batches())
    assert [len(batch) for batch in batches] == [32, 32, 6]
    assert [source.filename for batch in batches for source in batch] == [f"{n:02}.png" for n in range(70)]


def test_uploads_are_cut_before_a_body_grows_too_large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "UPLOAD_BYTES", 20)
    assert [len(batch) for batch in Upload(images_in(folder)).batches()] == [1, 1, 1]


def test_an_upload_sends_the_bytes_of_the_file(folder: Path) -> None:
    (batch,) = Upload(images_in(folder)).batches()
    assert base64.b64decode(batch[0].content_base64) == b"bus/1.png"


def left_out(folder: Path) -> list[tuple[str, str]]:
    upload = Upload(images_in(folder))
    sent = [source.filename for batch in upload.batches() for source in batch]
    total = upload.total([])
    assert len(sent) + len(total.rejected) == len(images_in(folder))
    return [(rejected.filename, rejected.code) for rejected in total.rejected]


@pytest.mark.fault("B47")
def test_an_unreadable_file_is_skipped_and_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "2.JPG":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    # Permissions do not stop root, as whom tests may run.
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert left_out(folder) == [("bus/2.JPG", "image-undecodable")]
    assert len(digest(folder)) == 12


@pytest.mark.fault("B1")
def test_an_empty_file_is_left_out_and_named(folder: Path) -> None:
    (folder / "sled" / "1.webp").write_bytes(b"")
    assert left_out(folder) == [("sled/1.webp", "image-undecodable")]


@pytest.mark.fault("B47")
def test_a_file_of_gigabytes_is_skipped_and_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "LARGEST_IMAGE", 10)
    assert left_out(folder) == [("sled/1.webp", "image-too-large")]


@pytest.mark.fault("B47")
def test_a_file_name_that_is_not_text_is_skipped_and_named(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder / "bus") + b"/\xff.png")).write_bytes(b"x")
    assert left_out(folder) == [("bus/?.png", "image-undecodable")]
    assert len(digest(folder)) == 12


def test_a_rejected_batch_names_every_image(folder: Path) -> None:
    (batch,) = Upload(images_in(folder)).batches()
    parts = [ImageUndecodable(f"broken {number}", pointer=f"/sources/{number}") for number in range(3)]
    told = none_taken(batch, ImageUndecodable("broken 0; 2 more are refused", parts=parts))
    assert told.added == 0
    assert [(one.filename, one.code, one.detail, one.pointer) for one in told.rejected] == [
        (source.filename, "image-undecodable", f"broken {number}", f"/sources/{number}")
        for number, source in enumerate(batch)
    ]


def test_a_rejected_request_does_not_blame_its_images(folder: Path) -> None:
    (batch,) = Upload(images_in(folder)).batches()
    with pytest.raises(InvalidRequest, match="no such field"):
        none_taken(batch, InvalidRequest("no such field", pointer="/surprise"))


def test_equal_folders_in_different_places_are_one_dataset(folder: Path) -> None:
    before = digest(folder)
    (folder / "bus" / "notes.txt").write_text("no image")
    assert digest(folder) == before


@pytest.mark.parametrize("change", ["content", "name", "label", "caption"])
def test_any_change_of_the_upload_changes_the_name_of_the_dataset(folder: Path, change: str) -> None:
    before, captions = digest(folder), None
    if change == "content":
        (folder / "bus" / "1.png").write_bytes(b"another")
    elif change == "name":
        (folder / "bus" / "1.png").rename(folder / "bus" / "9.png")
    elif change == "label":
        (folder / "bus").rename(folder / "car")
    else:
        captions = {"bus/1.png": "a red bus"}
    assert digest(folder, captions) != before


def test_groups_are_read_from_the_folders_own_metadata(folder: Path) -> None:
    plain = digest(folder)
    (folder / "metadata.csv").write_text(
        "file_name,group\nbus/1.png,video-1\nsled/1.webp,\n", encoding="utf-8"
    )
    assert [image.group for image in images_in(folder)] == ["video-1", None, None]
    # Where a folder has both, the lines count.
    (folder / "metadata.jsonl").write_text(
        '{"file_name": "bus/1.png", "group": "a"}\n{"file_name": "bus/2.JPG", "group": "a"}\n\n'
        '{"file_name": "sled/1.webp", "caption": "a sled"}\n',
        encoding="utf-8",
    )
    found = images_in(folder)
    assert [image.group for image in found] == ["a", "a", None]
    assert folder_digest(found) != plain
    [batch] = Upload(found).batches()
    assert [source.group for source in batch] == ["a", "a", None]
    assert [image.group for image in images_in(folder, groups={"sled/1.webp": "b"})] == [None, None, "b"]


def test_further_labels_are_read_from_the_folders_own_metadata(folder: Path) -> None:
    plain = digest(folder)
    (folder / "metadata.csv").write_text("file_name,labels\nbus/1.png,coach | van\nsled/1.webp,\n")
    assert [image.labels for image in images_in(folder)] == [("coach", "van"), (), ()]
    (folder / "metadata.jsonl").write_text(
        '{"file_name": "bus/1.png", "labels": ["coach"]}\n{"file_name": "bus/2.JPG", "labels": []}\n'
    )
    found = images_in(folder)
    assert [image.labels for image in found] == [("coach",), (), ()]
    assert folder_digest(found) != plain
    [batch] = Upload(found).batches()
    assert [source.labels for source in batch] == [["coach"], [], []]


@pytest.mark.parametrize("labels", ["3", "[3]", '{"a": "b"}'])
def test_further_labels_that_are_no_names_are_refused(folder: Path, labels: str) -> None:
    (folder / "metadata.jsonl").write_text(f'{{"file_name": "bus/1.png", "labels": {labels}}}\n')
    with pytest.raises(InvalidRequest, match="'labels' has to be a list of names"):
        images_in(folder)


@pytest.mark.parametrize(
    "line", ["no json", "[]", '{"group": "a"}', '{"file_name": "bus/1.png", "group": 3}']
)
def test_a_line_of_metadata_without_image_or_group_is_named(folder: Path, line: str) -> None:
    (folder / "metadata.jsonl").write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"line 2 of .*metadata\.jsonl' is not"):
        images_in(folder)


def test_metadata_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / "metadata.csv").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InvalidRequest, match=r"line 1 .* is not UTF-8"):
        images_in(folder)


def test_a_group_that_spans_classes_is_refused_before_anything_is_sent(folder: Path) -> None:
    groups = {"bus/1.png": "video-1", "sled/1.webp": "video-1"}
    with pytest.raises(InvalidRequest, match=r"'video-1' has images of the classes 'bus' and 'sled'"):
        images_in(folder, groups=groups)


def test_a_group_without_an_image_is_named_in_the_error(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"'bus/3\.png' has a group"):
        images_in(folder, groups={"bus/3.png": "video-1"})


def test_rows_of_a_dataset_object_have_groups_by_number_or_column() -> None:
    rows = [(b"one", "bus"), (b"two", "bus"), (b"three", "sled")]
    found = dataset_object(rows, None, [7, 7, None])
    assert [row.group for row in found] == ["7", "7", None]
    with pytest.raises(InvalidRequest, match="there are 3 rows, but 2 groups"):
        dataset_object(rows, None, ["a", "b"])
    columns = Columns()
    assert [row.group for row in dataset_object(columns, None)] == ["a", None]
    assert [row.group for row in dataset_object(columns, None, ["b", "b"])] == ["b", "b"]


class Columns:
    """A dataset with columns, as Hugging Face has them."""

    column_names = ("image", "label", "group")

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: int | str) -> object:
        rows: list[dict[str, object]] = [
            {"image": b"one", "label": "bus", "group": "a"},
            {"image": b"two", "label": "bus", "group": None},
        ]
        return rows[at] if isinstance(at, int) else [row[at] for row in rows]


def test_groups_of_the_wrong_form_are_refused(folder: Path) -> None:
    client = Client("http://127.0.0.1:1", api_key="key")
    with pytest.raises(InvalidRequest, match="groups of a folder are by image"):
        client.datasets.upload(folder, name="demo", groups=["a"])
    with pytest.raises(InvalidRequest, match="groups of a dataset object are by row"):
        client.datasets.upload([(b"one", "bus")], name="demo", groups={"bus/1.png": "a"})


def test_classes_are_called_as_a_file_in_the_folder_or_the_caller_says(folder: Path) -> None:
    plain = digest(folder)
    (folder / "names.json").write_text('{"bus": "school bus"}', encoding="utf-8")
    found = images_in(folder, {"bus/1.png": "a yellow bus"})
    assert [image.label for image in found] == ["school bus", "school bus", "sled"]
    assert [image.name for image in found] == ["bus/1.png", "bus/2.JPG", "sled/1.webp"]
    assert found[0].caption == "a yellow bus"
    assert digest(folder) != plain
    assert [image.label for image in images_in(folder, names={"sled": "toboggan"})] == [
        "bus", "bus", "toboggan",
    ]  # fmt: skip
    assert digest(folder) != folder_digest(images_in(folder, names={}))
    assert folder_digest(images_in(folder, names={})) == plain


def test_ids_become_names_of_imagenet(folder: Path) -> None:
    (folder / "bus").rename(folder / "n02690373")
    assert [image.label for image in images_in(folder)] == ["airliner", "airliner", "sled"]
    (folder / "sled").rename(folder / "n00007846")
    with pytest.raises(InvalidRequest, match="'n00007846' is a WordNet id"):
        images_in(folder)
