"""Human labels: how images are sampled, what the sheets show, and how labels are read back."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import Item
from counterpose_core.images.codecs import encode_raw
from counterpose_core.types import EDIT_TYPES, EditType
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.scene import ATTRIBUTES, Scene
from evaluation.tests.fakes.validity import item, scene
from evaluation.validity import label
from evaluation.validity.judging import SEEN
from evaluation.validity.labelling import asked_of, blank_table, chosen, draw_sheets
from evaluation.validity.labels import IMAGES, SHEET, UNCLEAR, enter, read_labels, write_labels
from evaluation.validity.order import SOURCES, TESTED
from evaluation.validity.running import FINISHED, Finished

BEFORE = [scene(nuisance=number) for number in range(12)]
AFTER = [one.changed("background", "sand") for one in BEFORE]
SHOWN = np.stack([render(one) for one in AFTER])


def edits(count: int, edit_type: EditType = "background", *, dropped: int = 0) -> list[Item]:
    """Edits with separate images; the gate dropped the first ``dropped``."""
    return [
        item(
            BEFORE[0],
            AFTER[0],
            name=f"{edit_type}-{at}",
            edit_type=edit_type,
            image=f"{EDIT_TYPES.index(edit_type)}{at:063x}",
            state="filtered" if at < dropped else "done",
        )
        for at in range(count)
    ]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve images without labels."""
    store = BlobStore(str(tmp_path / "store"))
    refs = [store.put(encode_raw(image)) for image in SHOWN]
    asked = [
        asked_of(item(before, after, image=ref), before.attributes())
        for before, after, ref in zip(BEFORE, AFTER, refs, strict=True)
    ]
    write_labels(tmp_path / "labels", asked, SHOWN)
    return tmp_path / "labels"


def filled(folder: Path, *, first: str | None = None, count: int = len(AFTER)) -> Path:
    """A table of what the images show, with ``first`` as the class of the first image."""
    table = folder.parent / "table.csv"
    rows = [one.attributes() for one in AFTER[:count]]
    rows[0]["object_class"] = first or rows[0]["object_class"]
    with table.open("w", encoding="utf-8") as file:
        file.write(blank_table(0))
        for number, row in enumerate(rows, 1):
            csv.writer(file).writerow([number, *(row[name] for name in ATTRIBUTES)])
    return table


def test_every_edit_type_is_sampled_equally_and_half_were_dropped() -> None:
    items = [one for name in EDIT_TYPES for one in edits(30, name, dropped=12)]
    found = chosen(items, 100, rng())
    counts = {name: [one.state for one in found if one.edit_type == name] for name in EDIT_TYPES}
    assert all(len(states) == 20 and states.count("filtered") == 10 for states in counts.values())


def test_kept_and_dropped_edits_fill_in_for_each_other() -> None:
    few_dropped = chosen(edits(30, dropped=2), 50, rng())
    few_kept = chosen(edits(30, dropped=28), 50, rng())
    assert [sum(one.state == "done" for one in found) for found in (few_dropped, few_kept)] == [8, 2]


def test_images_are_shuffled_without_repetition() -> None:
    items = [one for name in EDIT_TYPES for one in edits(4, name)]
    found = chosen([*items, *items], 50, rng())
    assert len({one.result.image for one in found if one.result}) == len(found) == 20
    order = [EDIT_TYPES.index(one.edit_type) for one in found if one.edit_type]
    assert order != sorted(order)


def test_only_edits_are_labelled() -> None:
    made = edits(4)
    others = [one.model_copy(update={"kind": "lance-r"}) for one in made[:2]]
    unmade = made[2].model_copy(update={"result": None})
    assert chosen([*others, unmade, made[3]], 50, rng()) == [made[3]]


def test_each_sheet_shows_twenty_enlarged_images(tmp_path: Path) -> None:
    found = draw_sheets(np.concatenate([SHOWN, SHOWN]), tmp_path / "sheets")
    assert [path.name for path in found] == ["sheet-1.png", "sheet-2.png"]


def test_a_blank_sheet_holds_no_labels(folder: Path) -> None:
    assert read_labels(folder) == []
    assert read_labels(folder / "nowhere") == []


def test_labels_entered_by_number_are_matched_to_images(folder: Path) -> None:
    enter(filled(folder), folder)
    found = read_labels(folder)
    assert [one.seen for one in found] == [one.attributes() for one in AFTER]
    assert np.array_equal(np.stack([one.image for one in found]), SHOWN)
    assert all(one.asked.verdict(one.seen) == (True, True, True) for one in found)


def test_a_label_can_be_unknown(folder: Path) -> None:
    enter(filled(folder, first=UNCLEAR), folder)
    found = read_labels(folder)[0]
    assert found.asked.verdict(found.seen) == (True, False, False)


def test_an_invalid_label_is_refused_by_its_number(folder: Path) -> None:
    enter(filled(folder, first="ship"), folder)
    with pytest.raises(ValueError, match="image 1: object_class is 'ship'"):
        read_labels(folder)


def test_a_table_with_missing_images_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="does not number the 12 images"):
        enter(filled(folder, count=11), folder)


def test_images_that_differ_from_the_named_ones_are_refused(folder: Path) -> None:
    enter(filled(folder), folder)
    names = list(json.loads((folder / "asked.json").read_text()))
    names[0], names[1] = names[1], names[0]
    (folder / "asked.json").write_text(json.dumps(names))
    with pytest.raises(ValueError, match="image 1 is not"):
        read_labels(folder)


def test_labels_are_not_overwritten(folder: Path) -> None:
    with pytest.raises(FileExistsError, match=SHEET):
        write_labels(folder, [], SHOWN)


def finished_run(state: Path, scenes: list[Scene]) -> None:
    """A run whose edits moved boats from the water, as a validation leaves it."""
    store = BlobStore(str(state / "stack" / "store"))
    made = [
        item(before, after, image=store.put(encode_raw(image)), name=str(at)).model_copy(
            update={"source_image": f"{at:064x}"}
        )
        for at, (before, after, image) in enumerate(zip(scenes, AFTER, SHOWN, strict=True))
    ]
    run = state / "runs/quick-0-key"
    run.mkdir(parents=True)
    (run / TESTED).write_bytes(FINISHED.dump_json(Finished("run", made)))
    shown = {f"{at:064x}": one.attributes() for at, one in enumerate(scenes)}
    (run / SOURCES).write_bytes(SEEN.dump_json(shown))


def test_a_finished_run_can_be_exported_labelled_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finished_run(tmp_path, BEFORE)
    labels, sheets = tmp_path / "labels", tmp_path / "sheets"
    place = ["--labels", str(labels)]
    label.main([*place, "export", "--state", str(tmp_path), "--sheets", str(sheets)])
    assert {path.name for path in sheets.iterdir()} == {"sheet-1.png", "table.csv"}
    assert (labels / IMAGES).exists()
    with pytest.raises(SystemExit, match="nothing is labelled"):
        label.main([*place, "check"])
    table = filled(labels)
    label.main([*place, "check", "--table", str(table)])
    told = capsys.readouterr().out
    assert "background     1.000" in told
    assert "success        right ones called right: 12 of 12" in told


def test_exporting_needs_a_finished_run(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no run of seed 0"):
        label.main(["export", "--state", str(tmp_path), "--sheets", str(tmp_path)])
