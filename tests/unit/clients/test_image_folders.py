"""What of a folder is an image of a class, what is left out and named, and which image metadata means."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from counterpose._datasets.folders import folder_digest, images_in
from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.image_folders import is_hidden, read_class_folders
from counterpose_core.text.folder_names import folder_classes, name_of_id


def write(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return root


def named(root: Path) -> dict[str, str]:
    """The reason for all that is left out of a folder, by name."""
    return {one.filename: one.detail for one in images_in(root).left_out}


@pytest.mark.parametrize(
    "hidden",
    [".ipynb_checkpoints/1-checkpoint.png", "__MACOSX/._1.png", "cat/._1.png", "cat/.ipynb_checkpoints/1.png",
     ".Trashes/1.png", "cat/@eaDir/1.png", ".cover.png"],
)  # fmt: skip
def test_hidden_files_and_folders_are_passed_over(tmp_path: Path, hidden: str) -> None:
    found = images_in(write(tmp_path, "cat/1.png", "dog/1.png", hidden))
    assert [image.name for image in found] == ["cat/1.png", "dog/1.png"]
    assert found.left_out == []


def test_a_hidden_folder_of_images_may_be_given_itself(tmp_path: Path) -> None:
    assert len(images_in(write(tmp_path / ".data", "cat/1.png"))) == 1
    assert not is_hidden("..")


@pytest.mark.parametrize(
    ("file", "name", "reason"),
    [
        ("cat/2019/2.png", "cat/2019", "a folder below a class's folder is not read"),
        ("cow/a/b/1.png", "cow/a", "a folder below a class's folder is not read"),
        ("cow/notes.txt", "cow/", "has no PNG, JPEG or WebP image"),
        ("cow/000001", "cow/", "has no PNG, JPEG or WebP image"),
        ("cow/1.TIFF", "cow/1.TIFF", "another format; convert it with those like it"),
        ("cow/1.TIFF", "cow/1.TIFF", ": mogrify -format png 'cow/*.TIFF[0]' "),
        ("cat/2.heic", "cat/2.heic", ": mogrify -format jpg 'cat/*.heic[0]' "),
        ("cat/2.gif", "cat/2.gif", ": mogrify -format png 'cat/*.gif[0]' "),
        ("2.bmp", "2.bmp", ": mogrify -format png '*.bmp[0]' "),
        ("2.png", "2.png", "lies in no class's folder"),
        ("cat/metadata.csv", "cat/metadata.csv", "metadata is read only beside the classes' folders"),
    ],
)
def test_what_is_left_out_is_named(tmp_path: Path, file: str, name: str, reason: str) -> None:
    found = named(write(tmp_path, "cat/1.png", "dog/1.png", file))
    assert list(found) == [name]
    assert reason in found[name]


def test_files_that_nobody_takes_for_images_are_not_named(tmp_path: Path) -> None:
    write(
        tmp_path, "cat/1.png", "cat/Thumbs.db", "cat/desktop.ini", "cat/1.xml", "read.me", "cat/boxes/1.txt"
    )
    assert named(tmp_path) == {}


def test_a_class_without_files_and_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.png")
    (tmp_path / "cow").mkdir()
    (tmp_path / "cat" / "2.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "cat" / "more").symlink_to(tmp_path)
    assert list(named(tmp_path)) == ["cat/2.png", "cat/more", "cow/"]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Path.iterdir

    def refuse(path: Path) -> object:
        if path.name == "cow":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert "Permission denied" in named(write(tmp_path, "cat/1.png", "cow/1.png"))["cow/"]


def test_a_folder_of_splits_says_where_its_images_are(tmp_path: Path) -> None:
    write(tmp_path, "train/cat/1.png", "test/cat/2.png")
    with pytest.raises(DatasetEmpty, match="'test/cat': a folder below a class's folder is not read"):
        images_in(tmp_path)


@pytest.mark.parametrize("name", ["1.JPG", "1.Jpeg", "1.jfif", "1.jpe", "1.WebP"])
def test_endings_of_images_are_read_in_any_case(tmp_path: Path, name: str) -> None:
    assert [image.filename for image in images_in(write(tmp_path, f"cat/{name}"))] == [name]


@pytest.mark.parametrize(
    "written",
    ["cat\\a b.png", "./cat/a b.png", ".\\cat\\a b.png", "cat//a b.png", "cat/a%20b.png", "{}/cat/a b.png",
     "{name}/cat/a b.png", "{name}\\cat\\a b.png", "cat/x/../a b.png"],
)  # fmt: skip
def test_a_line_of_metadata_finds_its_image_in_any_spelling(tmp_path: Path, written: str) -> None:
    write(tmp_path, "cat/a b.png", "dog/1.png")
    line = written.format(tmp_path, name=tmp_path.name)
    (tmp_path / "metadata.csv").write_text(f"file_name,group\n{line},video-1\n", encoding="utf-8")
    assert [image.group for image in images_in(tmp_path)] == ["video-1", None]
    assert [image.caption for image in images_in(tmp_path, {line: "a cat"})] == ["a cat", None]


def test_letters_of_two_parts_find_those_of_one(tmp_path: Path) -> None:
    write(tmp_path, "cat/cafe\u0301.png")
    (tmp_path / "metadata.csv").write_text("file_name,group\ncat/caf\u00e9.png,video-1\n", encoding="utf-8")
    assert [image.group for image in images_in(tmp_path)] == ["video-1"]


def test_a_file_that_is_really_called_so_comes_first(tmp_path: Path) -> None:
    write(tmp_path, "cat/a%20b.png", "cat/a b.png")
    (tmp_path / "metadata.csv").write_text("file_name,group\ncat/a%20b.png,video-1\n", encoding="utf-8")
    assert {image.name: image.group for image in images_in(tmp_path)} == {
        "cat/a b.png": None, "cat/a%20b.png": "video-1",
    }  # fmt: skip


@pytest.mark.parametrize(
    "line", ["cat/9.png", "1.png", "Cat/1.png", "/elsewhere/cat/1.png", "C:\\photos\\cat\\1.png"]
)
def test_a_group_of_no_image_is_refused_by_its_line(tmp_path: Path, line: str) -> None:
    write(tmp_path, "cat/1.png", "dog/1.png")
    (tmp_path / "metadata.csv").write_text(f"file_name,group\n{line},video-1\n", encoding="utf-8")
    with pytest.raises(InvalidRequest) as refused:
        images_in(tmp_path)
    assert f"{line!r} has a group, but" in refused.value.detail
    assert "write the path below the folder, such as 'cat/1.png'" in refused.value.detail


def test_a_group_of_what_is_left_out_refuses_nothing(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.png", "cat/2019/2.png", "3.png")
    lines = '{"file_name": "cat/2019/2.png", "group": "a"}\n{"file_name": "3.png", "group": "a"}\n'
    (tmp_path / "metadata.jsonl").write_text(lines + '{"file_name": "gone.png"}\n', encoding="utf-8")
    assert set(named(tmp_path)) == {"cat/2019", "3.png"}


@pytest.mark.parametrize(
    "header", ["file_name, group", "File_Name,Group", "\ufefffile_name,group", '"file_name","group"']
)
def test_columns_are_found_in_any_spelling(tmp_path: Path, header: str) -> None:
    write(tmp_path, "cat/1.png")
    (tmp_path / "metadata.csv").write_bytes(f"{header}\r\ncat/1.png, video-1\r\n".encode())
    assert [image.group for image in images_in(tmp_path)] == ["video-1"]


@pytest.mark.parametrize("second", ["cat/1.png", "cat\\1.png"])
def test_two_groups_of_one_image_are_refused(tmp_path: Path, second: str) -> None:
    write(tmp_path, "cat/1.png")
    (tmp_path / "metadata.csv").write_text(f"file_name,group\ncat/1.png,a\n{second},b\n", encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"a second group|two groups"):
        images_in(tmp_path)


def test_a_line_is_ended_by_a_line_break_alone(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.png")
    line = '{"file_name": "cat/1.png", "caption": "a\u2028b", "group": "a"}\r\n'
    (tmp_path / "metadata.jsonl").write_bytes(line.encode())
    assert [image.group for image in images_in(tmp_path)] == ["a"]


@pytest.mark.parametrize(
    ("folder", "called"),
    [
        ("n02085620-Chihuahua", "Chihuahua"), ("n02085782-Japanese_spaniel", "Japanese spaniel"),
        ("n01440764_tench", "tench"), ("n01440764 tench", "tench"), ("n01440764.tench", "tench"),
        ("tench-n01440764", "tench"), ("n02012849-crane", "crane (wading bird)"),
        ("n02085620_12", "Chihuahua"),
        ("n99999999-my_dog", "my dog"), ("n99999999-12", None), ("n99999999", None), ("Chihuahua", None),
        ("photon02085620", None), ("n020856201-dog", None),
    ],
)  # fmt: skip
def test_an_id_beside_words_is_a_name(folder: str, called: str | None) -> None:
    assert name_of_id(folder) == called
    if called is not None:
        assert folder_classes([folder]) == {folder: called}
        assert folder_classes([folder], {folder: folder}) == {folder: folder}


def test_two_ids_beside_equal_words_are_refused() -> None:
    assert set(folder_classes(["n02012849-crane", "n03126707-crane"]).values()) == {
        "crane (wading bird)", "crane (lifting device)",
    }  # fmt: skip
    with pytest.raises(InvalidRequest, match="would both be called 'crane'"):
        folder_classes(["n99999998-crane", "n99999999-crane"])


def test_images_are_listed_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, "b/1.png", "a b/1.png", "a/10.png", "a/2.png", "a.b/1.png")
    listed = read_class_folders(tmp_path).images
    assert listed == sorted(tmp_path.glob("*/*"))


def test_an_id_beside_a_number_is_refused_as_one_alone() -> None:
    with pytest.raises(InvalidRequest, match="'n99999999-12' is a WordNet id"):
        folder_classes(["n99999999-12"])


def test_each_image_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "cat/1.png", "dog/1.png")
    looks: Counter[str] = Counter()
    stat = Path.stat

    def counted(path: Path, **options: bool) -> os.stat_result:
        looks[path.name] += 1
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", counted)
    assert len(read_class_folders(tmp_path).images) == 2
    assert looks["1.png"] == 2


LABELLED = ["1.png", "2 b.JPG", "c,3.png"]


@pytest.mark.parametrize(
    "table",
    [
        'file_name,label\n1.png,cat\n2 b.JPG,dog\n"c,3.png",cat\n',
        "Filename;Class\n1.png;cat\n2 b.JPG;dog\nc,3.png;cat\n",
        '\ufeffimage,split,category\r\n./1.png,train,cat\r\n2%20b.JPG,test,dog\r\n"c,3.png",train,cat\r\n',
    ],
)
def test_a_flat_folder_is_labelled_by_a_table_beside_its_images(tmp_path: Path, table: str) -> None:
    write(tmp_path, *LABELLED)
    (tmp_path / "labels.csv").write_text(table, encoding="utf-8", newline="")
    found = images_in(tmp_path)
    assert [(image.name, image.folder, image.label) for image in found] == [
        ("1.png", "", "cat"), ("2 b.JPG", "", "dog"), ("c,3.png", "", "cat"),
    ]  # fmt: skip
    assert found.left_out == []
    digest = folder_digest(found)
    (tmp_path / "labels.csv").write_text(table.replace("dog", "cow"), encoding="utf-8", newline="")
    assert folder_digest(images_in(tmp_path)) != digest


def test_an_image_that_the_table_leaves_out_is_named_and_the_others_are_taken(tmp_path: Path) -> None:
    write(tmp_path, *LABELLED, "dog/4.png")
    (tmp_path / "labels.csv").write_text("file,label,group\n1.png,cat,v1\n2 b.JPG,,v1\n", encoding="utf-8")
    found = images_in(tmp_path)
    assert [(image.name, image.label, image.group) for image in found] == [
        ("1.png", "cat", "v1"), ("dog/4.png", "dog", None),
    ]  # fmt: skip
    told = "the image lies in no class's folder; move it into one, or label it in labels.csv"
    assert [(out.filename, out.detail) for out in found.left_out] == [("2 b.JPG", told), ("c,3.png", told)]


def test_a_line_of_the_table_that_names_no_image_is_refused(tmp_path: Path) -> None:
    write(tmp_path, *LABELLED)
    (tmp_path / "labels.csv").write_text("file,label\n1.jpg,cat\n", encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"'1\.jpg' has a label, but .* has no such image"):
        images_in(tmp_path)


def test_a_folder_without_labels_says_how_to_label_it_and_the_command_does(tmp_path: Path) -> None:
    folder = write(tmp_path / "my photos", *LABELLED, "notes.txt")
    with pytest.raises(DatasetEmpty) as found:
        images_in(folder)
    told, _, command = found.value.detail.partition("begin it with: ")
    assert "the 3 images in" in told
    assert "move each into a subfolder that is called as its class, or give each line of labels.csv" in told
    subprocess.run(["sh", "-c", command], check=True)
    table = folder / "labels.csv"
    with pytest.raises(DatasetEmpty, match="have no labels"):
        images_in(folder)
    table.write_text(table.read_text(encoding="utf-8").replace('",', '",cat'), encoding="utf-8")
    assert [(image.name, image.label) for image in images_in(folder)] == [(name, "cat") for name in LABELLED]
