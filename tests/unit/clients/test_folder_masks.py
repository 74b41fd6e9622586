"""Which masks a folder's images have: a folder of masks, a column of its metadata, and COCO polygons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counterpose._datasets.folders import folder_digest, images_in
from counterpose._datasets.uploads import Upload
from counterpose_core.contract.datasets import Outline
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.images.folder import read_folder

TRIANGLE = [1.0, 1.0, 9.0, 1.0, 1.0, 9.0]


def write(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return root


def masks(root: Path) -> dict[str, bytes | Outline | None]:
    """The masks of a folder's images, as the SDK sends them; the gateway reads the same ones."""
    sent = {image.name: image.where() for image in images_in(root)}
    assert {raw.filename: raw.mask for raw in read_folder(root)} == sent
    return sent


def left_out(root: Path) -> dict[str, str]:
    return {one.filename: one.detail for one in images_in(root).left_out}


def coco(
    root: Path, *annotations: dict[str, Any], images: tuple[str, ...] = ("cat/1.jpg", "dog/1.jpg")
) -> Path:
    write(root, "cat/1.jpg", "dog/1.jpg")
    document = {
        "images": [
            {"id": at, "file_name": name, "width": 20, "height": 10} for at, name in enumerate(images)
        ],
        "annotations": [{"id": at, **each} for at, each in enumerate(annotations)],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}, {"id": 3, "name": "person"}],
    }
    (root / "annotations.json").write_text(json.dumps(document))
    return root


def of(image: int, category: int, segmentation: Any = None) -> dict[str, Any]:
    return {"image_id": image, "category_id": category, "segmentation": segmentation or [TRIANGLE]}


def test_a_folder_of_masks_has_them_under_the_names_of_their_images(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.jpg", "cat/2.png", "dog/1.jpg", "masks/cat/1.png", "masks/cat/2.png")
    assert masks(tmp_path) == {
        "cat/1.jpg": b"masks/cat/1.png", "cat/2.png": b"masks/cat/2.png", "dog/1.jpg": None,
    }  # fmt: skip
    assert left_out(tmp_path) == {}


def test_two_images_that_differ_by_their_ends_have_masks_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.jpg", "cat/1.png", "dog/1.jpg", "masks/cat/1.png")
    assert masks(tmp_path)["cat/1.jpg"] is None
    assert masks(tmp_path)["cat/1.png"] == b"masks/cat/1.png"


def test_a_mask_of_no_image_is_named(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.jpg", "dog/1.jpg", "masks/cat/7.png")
    assert "it is the mask of no image" in left_out(tmp_path)["masks/cat/7.png"]


def test_a_class_that_is_called_masks_stays_one(tmp_path: Path) -> None:
    write(tmp_path, "masks/1.png", "faces/1.png")
    assert masks(tmp_path) == {"faces/1.png": None, "masks/1.png": None}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_column_names_a_mask_by_its_path_below_the_folder(tmp_path: Path, form: str) -> None:
    write(tmp_path, "cat/1.jpg", "dog/1.jpg", "outlines/a.png", "masks/cat/1.png")
    line = json.dumps({"file_name": "cat/1.jpg", "mask": "outlines/a.png"})
    text = "file_name,mask\ncat/1.jpg,outlines/a.png\n" if form == "csv" else line
    (tmp_path / f"metadata.{form}").write_text(text)
    # It comes before the folder of masks, and is no image of a class.
    assert masks(tmp_path) == {"cat/1.jpg": b"outlines/a.png", "dog/1.jpg": None}


@pytest.mark.parametrize("written", ["outlines/b.png", "../a.png", "cat/notes.txt"])
def test_a_mask_that_is_not_below_the_folder_is_refused(tmp_path: Path, written: str) -> None:
    root = write(tmp_path / "own", "cat/1.jpg", "dog/1.jpg", "cat/notes.txt")
    write(tmp_path, "a.png")
    (root / "metadata.csv").write_text(f"file_name,mask\ncat/1.jpg,{written}\n")
    with pytest.raises(InvalidRequest, match=r"'cat/1.jpg' has the mask .* no such PNG, JPEG or WebP file"):
        images_in(root)


def test_a_column_that_names_no_image_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.jpg", "masks/cat/1.png")
    (tmp_path / "metadata.csv").write_text("file_name,mask\ncat/9.jpg,masks/cat/1.png\n")
    with pytest.raises(InvalidRequest, match=r"'cat/9.jpg' has a mask, but .* has no such image"):
        images_in(tmp_path)


def test_coco_polygons_of_the_image_s_class_are_its_outline(tmp_path: Path) -> None:
    other = [5.0, 5.0, 8.0, 5.0, 5.0, 8.0]
    coco(tmp_path, of(0, 1), of(0, 1, [other]), of(0, 3), of(1, 3))
    outline = Outline(width=20, height=10, polygons=[TRIANGLE, other])
    # A person beside the cat is no part of it, and of the dog there is no outline.
    assert masks(tmp_path) == {"cat/1.jpg": outline, "dog/1.jpg": None}


def test_where_no_category_is_a_class_all_polygons_count(tmp_path: Path) -> None:
    coco(tmp_path, of(0, 3), of(1, 3))
    write(tmp_path, "annotations.json")
    document = {
        "images": [{"id": 0, "file_name": "1.png", "width": 20, "height": 10}],
        "annotations": [{"image_id": 0, "category_id": 7, "segmentation": [TRIANGLE]}],
    }
    write(tmp_path, "cat/1.jpg", "cat/1.png")
    (tmp_path / "annotations.json").write_text(json.dumps(document))
    # A file name without its folder means the only image of that name.
    assert masks(tmp_path)["cat/1.png"] == Outline(width=20, height=10, polygons=[TRIANGLE])


def test_what_of_coco_is_not_read_is_named(tmp_path: Path) -> None:
    coco(tmp_path, of(0, 1, {"size": [10, 20], "counts": "abc"}))
    assert "'cat/1.jpg', one of 1 images, has a run-length mask" in left_out(tmp_path)["annotations.json"]
    coco(tmp_path, images=("cat/1.jpg", "cow/3.jpg"))
    assert "'cow/3.jpg', one of 1 images, is not in the folder" in left_out(tmp_path)["annotations.json"]


@pytest.mark.parametrize(
    "text",
    ["[]", "{", '{"images": []}', '{"images": [1], "annotations": []}', '{"images": [], "annotations": {}}'],
)
def test_annotations_of_another_form_are_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path, "cat/1.jpg")
    (tmp_path / "annotations.json").write_text(text)
    with pytest.raises(InvalidRequest, match="is not COCO"):
        images_in(tmp_path)


@pytest.mark.parametrize("polygon", [[1.0, 2.0], [1, 2, 3, 4, 5, "x"], 7])
def test_a_polygon_of_another_form_is_refused_by_its_image(tmp_path: Path, polygon: Any) -> None:
    coco(tmp_path, of(0, 1, [polygon]))
    with pytest.raises(InvalidRequest, match=r"'cat/1.jpg' of .* has no width, height and polygons"):
        images_in(tmp_path)


def test_masks_are_sent_and_name_the_dataset(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.jpg", "dog/1.jpg")
    before = folder_digest(images_in(tmp_path))
    write(tmp_path, "masks/cat/1.png")
    with_mask = folder_digest(images_in(tmp_path))
    coco(tmp_path, of(1, 2))
    assert len({before, with_mask, folder_digest(images_in(tmp_path))}) == 3
    sent = {each.label: each for batch in Upload(images_in(tmp_path)).batches() for each in batch}
    assert (sent["cat"].mask_base64, sent["cat"].outline) == ("bWFza3MvY2F0LzEucG5n", None)
    assert sent["dog"].mask_base64 is None
    assert sent["dog"].outline == Outline(width=20, height=10, polygons=[TRIANGLE])


def test_an_image_whose_mask_cannot_be_read_is_skipped_and_named(tmp_path: Path) -> None:
    write(tmp_path, "cat/1.jpg", "dog/1.jpg", "masks/cat/1.png")
    (tmp_path / "masks/cat/1.png").write_bytes(b"")
    upload = Upload(images_in(tmp_path))
    assert [each.label for batch in upload.batches() for each in batch] == ["dog"]
    assert "the file of its mask cannot be read" in upload.skipped[0].detail
