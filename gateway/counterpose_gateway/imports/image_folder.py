"""A folder with a subfolder of images for each class, on any file system.

A part of it is some files of one class.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from counterpose_core.errors import InvalidRequest, ShardUnreadable
from counterpose_core.text.folder_names import NAMES, folder_classes
from counterpose_gateway.images.folder import SUFFIXES, RawSource
from counterpose_gateway.images.intake import LARGEST_FILE
from counterpose_gateway.imports.samples import Sample
from counterpose_gateway.imports.storage import Storage
from counterpose_gateway.ledger import NewShard

FILES = 1_000
"""Files of one part; their names are all that is kept of a listing."""
_LARGEST_NAMES = 4 << 20


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
    folders, _ = storage.folder(root)
    done, _, last = (mark or "").partition("/")
    for folder in folders:
        if folder < done:
            continue
        kept = classes is not None and folder in classes
        label = (
            folder
            if kept
            else folder_classes([folder], {k: v for k, v in given.items() if k == folder})[folder]
        )
        _, names = storage.folder(f"{root}/{folder}")
        images = [name for name in names if f".{name.rpartition('.')[2].lower()}" in SUFFIXES]
        if folder == done:
            images = [name for name in images if name > last]
        for start in range(0, len(images), FILES):
            files = images[start : start + FILES]
            yield NewShard(path=f"{root}/{folder}", label=label, files=files, mark=f"{folder}/{files[-1]}")


def read_files(path: str, files: Sequence[str], label: str, storage: Storage, start: int) -> Iterator[Sample]:
    """Yield the images of a part from the ``start``-th file on; one that cannot be read has no content."""
    folder = path.rpartition("/")[2]
    for number, name in enumerate(files[start:], start=start):
        content = _content(f"{path}/{name}", storage)
        source = RawSource(filename=f"{folder}/{name}", label=label, caption=None, content=content)
        yield Sample(source, number + 1)


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
