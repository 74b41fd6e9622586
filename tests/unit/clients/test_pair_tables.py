"""Tables of pairs that were made elsewhere: what is read of them, and what is refused by its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from counterpose._datasets.pairs import pairs_digest, pairs_in
from counterpose._datasets.uploads import Upload
from counterpose_core.errors import DatasetEmpty, InvalidRequest

HEAD = "source,counterfactual,change,level,control\n"


def picture(path: Path, shade: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for label, shade in (("cat", 1), ("dog", 9)):
        for number in (1, 2):
            picture(tmp_path / f"photographs/{label}/{number}.png", shade + number)
            for level in (1, 2):
                picture(
                    tmp_path / f"changed/fog{level}/{label}/{number}.png", 100 + shade + number + 20 * level
                )
    picture(tmp_path / "changed/again.png", 77)
    picture(tmp_path.parent / f"{tmp_path.name}-elsewhere.png", 5)
    return tmp_path


def table(folder: Path, text: str, name: str = "pairs.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_table_names_source_change_and_level_and_each_control_once(folder: Path) -> None:
    path = table(
        folder,
        HEAD
        + "cat/1.png,changed/fog1/cat/1.png,in fog,1,changed/again.png\n"
        + "photographs/cat/1.png,changed\\fog2\\cat\\1.png,in fog,2.0,changed/again.png\n"
        + "dog/2.png,./changed/fog1/dog/2.png,in fog,,dog/2.png\n",
    )
    images = pairs_in(path, folder / "photographs")
    told = [(each.label, each.filename, *each.pair.model_dump().values()) for each in images]
    assert told == [
        ("cat", "changed/fog1/cat/1.png", "1.png", "in fog", 1),
        ("cat", "changed/again.png", "1.png", None, 1),
        ("cat", "changed/fog2/cat/1.png", "1.png", "in fog", 2),
        ("dog", "changed/fog1/dog/2.png", "2.png", "in fog", 1),
        ("dog", "control/dog/2.png", "2.png", None, 1),
    ]  # fmt: skip
    (batch,) = Upload(images).batches()
    assert [each.pair for each in batch] == [each.pair for each in images]
    assert images[-1].content() == (folder / "photographs/dog/2.png").read_bytes()


def test_what_was_not_made_is_a_row_with_its_reason_and_no_file(folder: Path) -> None:
    path = table(
        folder,
        HEAD.replace("control", "control,not_made")
        + "cat/1.png,changed/none.png,in fog,2,,it was late\n"
        + "cat/1.png,changed/no-control.png,,,,it broke\n"
        + "cat/1.png,changed/fog1/cat/1.png,in fog,1,,\n",
    )
    images = pairs_in(path, folder / "photographs")
    told = [(each.filename, each.pair.change, each.pair.level, each.pair.not_made) for each in images]
    assert told == [
        ("changed/none.png", "in fog", 2, "it was late"),
        ("changed/no-control.png", None, 1, "it broke"),
        ("changed/fog1/cat/1.png", "in fog", 1, None),
    ]
    assert images[0].content() == (folder / "photographs/cat/1.png").read_bytes()


def test_lines_of_json_say_the_same_and_other_pairs_have_another_digest(folder: Path) -> None:
    told = {"source": "cat/1.png", "counterfactual": "changed/fog1/cat/1.png", "change": "in fog", "level": 3}
    lines = pairs_in(table(folder, json.dumps(told), "pairs.jsonl"), folder / "photographs")
    cells = pairs_in(table(folder, f"{HEAD}{','.join(map(str, told.values()))},\n"), folder / "photographs")
    assert lines == cells
    other = pairs_in(table(folder, json.dumps(told | {"level": 2}), "pairs.jsonl"), folder / "photographs")
    assert pairs_digest(lines) != pairs_digest(other)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("cat/9.png,changed/fog1/cat/1.png,fog,,", "has no image 'cat/9.png'; write the source's path"),
        ("cat/1.png,changed/none.png,fog,,", "there is no PNG, JPEG or WebP file"),
        ("cat/1.png,../{name}-elsewhere.png,fog,,", "does not lie below the folder of the table"),
        ("cat/1.png,{folder}/changed/fog1/cat/1.png,fog,,", "does not lie below the folder of the table"),
        ("cat/1.png,C:/fog.png,fog,,", "does not lie below the folder of the table"),
        ("cat/1.png,changed/fog1/cat/1.png,fog,strong,", "the level 'strong' is no whole"),
        ("cat/1.png,changed/fog1/cat/1.png,fog,0,", "the level '0' is no whole number"),
        ("cat/1.png,changed/fog1/cat/1.png,fog,1.5,", "the level '1.5' is no whole number"),
        ("cat/1.png,changed/fog1/cat/1.png,,,", "it has no change; a line needs"),
        ("cat/1.png,photographs/cat/2.png,fog,,", "is an image of"),
        ("dog/1.png,changed/fog1/dog/1.png,in fog,1,", "has 'in fog' at level 1 in line 2 already"),
        ("cat/1.png,changed/fog2/dog/1.png,in fog,3,", "is of a pair in line 2 already"),
        ("dog/1.png,changed/fog1/dog/1.png,in fog,3,dog/1.png", "has the control"),
        ("cat/1.png,changed/fog1/cat/1.png," + "fog" * 30 + ",,", "change"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_refused_by_its_number(folder: Path, line: str, fault: str) -> None:
    first = "dog/1.png,changed/fog2/dog/1.png,in fog,1,changed/again.png\n"
    path = table(folder, HEAD + first + line.format(folder=folder, name=folder.name) + "\n")
    with pytest.raises(InvalidRequest, match=r"^line 3 of ") as raised:
        pairs_in(path, folder / "photographs")
    assert fault in raised.value.detail


def test_an_empty_table_and_one_in_another_encoding_are_refused(folder: Path) -> None:
    with pytest.raises(
        DatasetEmpty, match="has no row; its columns are source, counterfactual, change, level"
    ):
        pairs_in(table(folder, HEAD), folder / "photographs")
    (folder / "pairs.csv").write_bytes(HEAD.encode() + b"cat/1.png,changed/f\xf6g.png,fog,,\n")
    with pytest.raises(InvalidRequest, match=r"line 2 of .* is not UTF-8"):
        pairs_in(folder / "pairs.csv", folder / "photographs")
