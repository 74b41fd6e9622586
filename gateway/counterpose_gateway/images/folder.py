"""A folder of labelled images on this machine: one folder for each class, and what its metadata says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpose_core.text.folder_names import NAMES, folder_classes, read_names
from counterpose_gateway.images.metadata import read_metadata

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})


@dataclass(frozen=True, kw_only=True)
class RawSource:
    """An image before intake; ``content`` is None if it could not be read.

    ``pointer`` is its place in the request, if it came with one.
    """

    filename: str
    label: str
    caption: str | None
    content: bytes | None
    pointer: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class ImageFolder:
    """The images of a folder; each is read when it is asked for.

    Attributes:
        images: the path of each, and its path below the folder.
        notes: what the metadata says, by path below the folder.
        called: the class of each folder whose images have no label in the metadata.
    """

    images: Sequence[tuple[Path, str]]
    notes: Mapping[str, Mapping[str, str]]
    called: Mapping[str, str]

    def __iter__(self) -> Iterator[RawSource]:
        for path, name in self.images:
            note = self.notes.get(name, {})
            yield RawSource(
                filename=name,
                label=note["label"] if "label" in note else self.called[path.parent.name],
                caption=note.get("caption"),
                group=note.get("group"),
                content=_read(path),
            )


def read_folder(folder: Path, classes: Sequence[str] | None = None) -> ImageFolder:
    """Read an ImageFolder (one folder per class), with what its metadata says of labels, captions and groups.

    Without a label there, the class of an image is its folder's: one of ``classes`` that is called so, else
    the name in ``names.json``, else ImageNet-1k's for a WordNet id, else the folder's own name.

    Raises:
        InvalidRequest: the metadata or the names are not of the form that is read, or a WordNet id has no
            name.
    """
    notes = read_metadata(folder)
    images = [
        (path, name)
        for path in _images(folder)
        for name in [path.relative_to(folder).as_posix()]
        if path.parent != folder or name in notes
    ]
    unsaid = dict.fromkeys(path.parent.name for path, name in images if "label" not in notes.get(name, {}))
    return ImageFolder(images, notes, _classes_of(folder, unsaid, classes or ()))


def _classes_of(folder: Path, names: Iterable[str], classes: Sequence[str]) -> dict[str, str]:
    kept = {name: name for name in names if name in classes}
    others = [name for name in names if name not in kept]
    given = read_names(folder / NAMES) if others and (folder / NAMES).is_file() else {}
    return kept | folder_classes(others, given)


def _images(folder: Path) -> list[Path]:
    # Two levels only, so that a link to its own parent is not followed without end.
    found = sorted((*folder.glob("*"), *folder.glob("*/*")))
    return [path for path in found if path.suffix.lower() in SUFFIXES and path.is_file()]


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
