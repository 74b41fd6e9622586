"""A folder with a subfolder of images for each class, on any file system.

A part of it is some files of one class, or what lies beside the folders of the classes, which is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from counterpose_core.errors import (
    ImageUndecodable,
    InvalidRequest,
    RequestError,
    ShardUnreadable,
    UnsupportedMedia,
)
from counterpose_core.folder_masks import ANNOTATIONS
from counterpose_core.image_folders import (
    LOOSE,
    MASKS,
    METADATA,
    NO_IMAGE,
    OTHER_FORMAT,
    OTHER_SUFFIXES,
    SUFFIXES,
    TOO_DEEP,
    is_hidden,
)
from counterpose_core.text.folder_names import NAMES, folder_classes
from counterpose_gateway.images.folder import RawSource
from counterpose_gateway.images.intake import LARGEST_FILE
from counterpose_gateway.imports.storage import Sample, Storage, refused
from counterpose_gateway.records.imports import NewShard

NOTES = (*METADATA, ANNOTATIONS)
"""What a folder that is uploaded may say of its images."""
FILES = 1_000
"""Files of one part; their names are all that is kept of a listing."""
_LARGEST_NAMES = 4 << 20
_EMPTY = ""
"""Stands for the images of a class's folder that has none."""
_NO_CLASS = ""
"""The class of what lies beside the classes' folders."""
_MASKS = "/masks"
"""The class of a folder of masks; no folder's name has a slash."""
OF_NO_IMAGE = "{!r}, one of {} masks, is of no image; call it as its image, below the same folders"
_BESIDE = "\U0010ffff"
"""Stands behind the name of every folder in a mark."""


def find_shards(
    url: str, storage: Storage, mark: str | None, classes: Sequence[str] | None
) -> Iterator[NewShard]:
    """Yield parts of the folder, class by class; after ``mark``, which names the last file of a part.

    Raises:
        InvalidRequest: a subfolder is a WordNet id without a name.
        ShardUnreadable: the folder is missing.
    """
    root = url.rstrip("/")
    given = _given_names(root, storage)
    folders, beside = storage.folder(root)
    done, _, last = (mark or "").partition("/")
    for folder in folders:
        if folder < done or is_hidden(folder):
            continue
        inner, files = storage.folder(f"{root}/{folder}")
        if classes is not None and folder in classes:
            label = folder
        elif folder == MASKS and (_entries(inner, []) or any(_ending(name) in SUFFIXES for name in beside)):
            label = _MASKS
        else:
            label = folder_classes([folder], {k: v for k, v in given.items() if k == folder})[folder]
        entries = _entries(inner, files) or [_EMPTY]
        if folder == done:
            entries = [name for name in entries if name > last]
        for start in range(0, len(entries), FILES):
            files = entries[start : start + FILES]
            yield NewShard(path=f"{root}/{folder}", label=label, files=files, mark=f"{folder}/{files[-1]}")
    if done != _BESIDE and (files := _entries([], beside)):
        yield NewShard(path=root, label=_NO_CLASS, files=files, mark=f"{_BESIDE}/")


def read_files(path: str, files: Sequence[str], label: str, storage: Storage, start: int) -> Iterator[Sample]:
    """Yield the images of a part from the ``start``-th file on; one that cannot be read has no content.

    What is no image of a class is refused by name. The mask of ``cat/1.jpg`` is ``masks/cat/1.png``, as in a
    folder that is uploaded.
    """
    root, _, own = path.rpartition("/")
    folder = "" if label == _NO_CLASS else f"{own}/"
    masks: Mapping[str, str] = {}
    if label not in (_NO_CLASS, _MASKS):
        there = _images(f"{root}/{MASKS}/{own}", storage)
        masks = {_stem(name): name for name in there} | {name: name for name in there}
    for number, name in enumerate(files[start:], start=start):
        fault = _stray(root, name, storage) if label == _MASKS else _fault(name, label)
        if fault is not None:
            yield Sample(refused(f"{folder}{name}", fault), number + 1)
        elif label != _MASKS:
            mask = masks.get(name) or masks.get(_stem(name))
            # A mask that is called exactly as another image is that image's.
            has_none = mask is None or (mask != name and mask in files)
            inside = None if has_none else _content(f"{root}/{MASKS}/{own}/{mask}", storage) or b""
            content = _content(f"{path}/{name}", storage)
            source = RawSource(
                filename=f"{folder}{name}", label=label, caption=None, content=content, mask=inside
            )
            yield Sample(source, number + 1)


def _stray(root: str, name: str, storage: Storage) -> RequestError | None:
    """Say which masks of a class's folder are of no image; ``name`` is what the folder of masks has."""
    strays = [name]
    if name.endswith("/"):
        of = {_stem(image) for image in _images(f"{root}/{name[:-1]}", storage)}
        strays = [mask for mask in _images(f"{root}/{MASKS}/{name[:-1]}", storage) if _stem(mask) not in of]
    return InvalidRequest(OF_NO_IMAGE.format(strays[0], len(strays))) if strays else None


def _images(folder: str, storage: Storage) -> list[str]:
    try:
        files = storage.folder(folder)[1]
    except ShardUnreadable as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        return []
    return [name for name in files if _ending(name) in SUFFIXES and not is_hidden(name)]


def _stem(name: str) -> str:
    return name.rpartition(".")[0]


def _entries(folders: Sequence[str], files: Sequence[str]) -> list[str]:
    """Return what of a folder is taken in or refused by name; all else is none of its images."""
    named = [name for name in files if _ending(name) in SUFFIXES | OTHER_SUFFIXES or name in NOTES]
    return sorted(
        [*(f"{name}/" for name in folders if not is_hidden(name)), *(n for n in named if not is_hidden(n))]
    )


def _fault(name: str, label: str) -> RequestError | None:
    """Say why an entry of a part is refused without being read."""
    if name == _EMPTY:
        return ImageUndecodable(NO_IMAGE)
    if name.endswith("/"):
        return InvalidRequest(TOO_DEEP)
    if name == ANNOTATIONS:
        return InvalidRequest(f"an import reads no outlines; upload the folder, or write {MASKS}/")
    if name in METADATA:
        return InvalidRequest(
            "an import reads no metadata; upload the folder, or import it as tar or Parquet"
        )
    if label == _NO_CLASS:
        return InvalidRequest(f"{LOOSE}; move it into one")
    if _ending(name) in OTHER_SUFFIXES:
        return UnsupportedMedia(OTHER_FORMAT)
    return None


def _ending(name: str) -> str:
    return f".{name.rpartition('.')[2].lower()}"


def _content(url: str, storage: Storage) -> bytes | None:
    try:
        # One byte more is refused by the intake, with the size that it allows.
        with storage.open(url) as opened:
            return opened.read(LARGEST_FILE + 1)
    except (ShardUnreadable, FileNotFoundError):
        return None


def _given_names(root: str, storage: Storage) -> Mapping[str, str]:
    data = storage.small_file(f"{root}/{NAMES}", _LARGEST_NAMES)
    if data is None:
        return {}
    try:
        names = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{root}/{NAMES} is no JSON") from error
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise InvalidRequest(f'{root}/{NAMES} is not a JSON object such as {{"n02690373": "airliner"}}')
    return names
