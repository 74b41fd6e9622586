"""Where the objects of a folder's images are: a column of its metadata, a folder of masks, COCO polygons."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from counterpose_core.contract.datasets import Outline, RejectedSource
from counterpose_core.errors import InvalidRequest
from counterpose_core.image_folders import MASKS, SUFFIXES, ClassFolders, is_hidden
from counterpose_core.text.imagenet_hierarchy import class_key

ANNOTATIONS = "annotations.json"
"""Polygons in the form of COCO, beside the folders of the classes."""


@dataclass(frozen=True)
class FolderMasks:
    """The file or the outline of each image that has one, by the image's path below the folder.

    ``left_out`` names masks of no image, and outlines of another form.
    """

    masks: Mapping[str, Path | Outline]
    left_out: Sequence[RejectedSource]

    @property
    def files(self) -> set[Path]:
        """The files of masks, which are no images of the dataset."""
        return {mask for mask in self.masks.values() if isinstance(mask, Path)}


def folder_masks(folders: ClassFolders, column: Mapping[str, str], labels: Mapping[str, str]) -> FolderMasks:
    """Return the masks of a folder's images.

    The column comes before the folder `MASKS`, and that before the polygons of `ANNOTATIONS`.

    Args:
        folders: the images.
        column: the path of a mask below the folder, by image, as the metadata write both.
        labels: the class of each image, by its path below the folder.

    Raises:
        InvalidRequest: the metadata name an image or a mask that does not exist, or the annotations are not
            of COCO's form.
    """
    outlines, others = _outlines(folders, labels)
    beside, strays = _beside(folders, list(labels))
    named = {
        name: _inside(folders.root, name, written)
        for name, written in folders.by_image("mask", column).items()
    }
    return FolderMasks({**outlines, **beside, **named}, [*strays, *others])


def _inside(root: Path, image: str, written: str) -> Path:
    path = root / written.replace("\\", "/")
    is_below = path.resolve().is_relative_to(root.resolve())
    if not is_below or path.suffix.lower() not in SUFFIXES or not path.is_file():
        raise InvalidRequest(
            f"{image!r} has the mask {written!r}, but {str(root)!r} has no such PNG, JPEG or WebP file; "
            "write its path below the folder"
        )
    return path


def _beside(
    folders: ClassFolders, images: Iterable[str]
) -> tuple[dict[str, Path | Outline], list[RejectedSource]]:
    """Return the masks in the folder of masks by image; both are called the same but for their ends."""
    if folders.masks is None:
        return {}, []
    files = {
        path.relative_to(folders.masks).as_posix(): path
        for path in sorted(folders.masks.rglob("*"))
        if path.suffix.lower() in SUFFIXES and path.is_file() and not is_hidden(path.name)
    }
    stems = {name.rpartition(".")[0]: name for name in files}
    names = dict.fromkeys(images)
    found: dict[str, Path | Outline] = {}
    taken = set[str]()
    for name in names:
        mask = name if name in files else stems.get(name.rpartition(".")[0])
        # A mask that is called exactly as another image is that image's.
        if mask is not None and (mask == name or mask not in names):
            found[name] = files[mask]
            taken.add(mask)
    detail = "it is the mask of no image; call it as its image, below the same folders"
    strays = [_skipped(f"{MASKS}/{name}", detail) for name in files if name not in taken]
    return found, strays


def _outlines(
    folders: ClassFolders, labels: Mapping[str, str]
) -> tuple[dict[str, Path | Outline], list[RejectedSource]]:
    """Return COCO's polygons by image: those of its class, or all where no category is a class."""
    path = folders.root / ANNOTATIONS
    if not path.is_file():
        return {}, []
    coco = _read(path)
    categories = {each.get("id"): class_key(str(each.get("name"))) for each in coco["categories"]}
    are_classes = bool({class_key(label) for label in labels.values()} & set(categories.values()))
    of_image = defaultdict[Any, list[Mapping[str, Any]]](list)
    for each in coco["annotations"]:
        of_image[each.get("image_id")].append(each)
    short = defaultdict[str, list[str]](list)
    for name in labels:
        short[name.rpartition("/")[2]].append(name)
    found: dict[str, Path | Outline] = {}
    absent, encoded = list[str](), list[str]()
    for image in coco["images"]:
        written = str(image.get("file_name"))
        name = folders.named(written) or written
        if name not in labels:
            alike = short[written.rpartition("/")[2]]
            name = alike[0] if len(alike) == 1 else name
        if name not in labels:
            absent.append(written)
            continue
        own = [
            each for each in of_image[image.get("id")]
            if not are_classes or categories.get(each.get("category_id")) == class_key(labels[name])
        ]  # fmt: skip
        parts = [each.get("segmentation") for each in own]
        if any(isinstance(part, dict) for part in parts):
            encoded.append(name)
        elif polygons := [polygon for part in parts for polygon in part or ()]:
            found[name] = _outline(image, polygons, f"{name!r} of {str(path)!r}")
    notes = ((absent, "is not in the folder"), (encoded, "has a run-length mask; export polygons"))
    return found, [
        _skipped(ANNOTATIONS, f"{names[0]!r}, one of {len(names)} images, {why}")
        for names, why in notes
        if names
    ]


def _outline(image: Mapping[str, Any], polygons: Sequence[Any], about: str) -> Outline:
    try:
        return Outline(width=image.get("width"), height=image.get("height"), polygons=list(polygons))
    except ValidationError as error:
        raise InvalidRequest(f"{about} has no width, height and polygons as COCO has them") from error


def _read(path: Path) -> dict[str, list[Mapping[str, Any]]]:
    parts = ("images", "annotations", "categories")
    try:
        coco = json.loads(path.read_bytes())
        # A file of one kind of object needs no categories.
        lists = {part: coco.get(part, []) if part == "categories" else coco[part] for part in parts}
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise InvalidRequest(
            f"{str(path)!r} is not COCO: it has no lists 'images' and 'annotations'"
        ) from error
    for part, rows in lists.items():
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InvalidRequest(f"{str(path)!r} is not COCO: {part!r} is no list of objects")
    return lists


def _skipped(name: str, detail: str) -> RejectedSource:
    # JSON cannot hold the lone surrogates that stand for bytes of a non-UTF-8 file name.
    shown = name.encode(errors="replace").decode()[:255]
    return RejectedSource(filename=shown, code=InvalidRequest.code, detail=detail)
