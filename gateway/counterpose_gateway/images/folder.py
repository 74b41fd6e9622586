"""A folder of labelled images on this machine: one folder for each class, and what its metadata says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from counterpose_core.contract.datasets import Outline, Pairing, RejectedSource
from counterpose_core.folder_masks import folder_masks
from counterpose_core.folder_metadata import further_labels, metadata_notes
from counterpose_core.image_folders import left_out_loose, read_class_folders
from counterpose_core.text.folder_names import NAMES, folder_classes, read_names


@dataclass(frozen=True, kw_only=True)
class RawSource:
    """An image before intake; ``content`` is None if it could not be read.

    ``pointer`` is its place in the request, if it came with one; ``mask`` is a file or an outline of its
    object, and empty bytes if the file could not be read; ``pair`` says what it was made of;
    ``labels`` are further ones.
    """

    filename: str
    label: str
    caption: str | None
    content: bytes | None
    pointer: str | None = None
    group: str | None = None
    mask: bytes | Outline | None = None
    pair: Pairing | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImageFolder:
    """The images of a folder; each is read when it is asked for.

    Attributes:
        images: the path of each, and its path below the folder.
        notes: what the metadata says, by path below the folder.
        called: the class of each folder whose images have no label in the metadata.
        left_out: what in the folder is none of its images, and why.
        masks: the file or the outline of their objects, by path below the folder.
    """

    images: Sequence[tuple[Path, str]]
    notes: Mapping[str, Mapping[str, str]]
    called: Mapping[str, str]
    left_out: Sequence[RejectedSource]
    masks: Mapping[str, Path | Outline] = field(default_factory=dict)

    def __iter__(self) -> Iterator[RawSource]:
        for path, name in self.images:
            note = self.notes.get(name, {})
            yield RawSource(
                filename=name,
                label=_label(path, note, self.called),
                caption=note.get("caption"),
                group=note.get("group"),
                content=_read(path),
                mask=_mask(self.masks.get(name)),
                labels=further_labels(note),
            )


def read_folder(
    folder: Path, classes: Sequence[str] | None = None, *, with_captions: bool = True
) -> ImageFolder:
    """Read an ImageFolder (one folder per class), with what its metadata says of labels, captions and groups.

    Without a label there, the class of an image is its folder's: one of ``classes`` that is called so, else
    the name in ``names.json``, else ImageNet-1k's for a WordNet id, else the folder's own name.

    Raises:
        InvalidRequest: the metadata or the names are not of the form that is read or name an image that does
            not exist, or a WordNet id has no name.
    """
    listed = read_class_folders(folder)
    fields = ("label", "group", "mask", "labels", *(("caption",) if with_captions else ()))
    notes = listed.by_image("note", metadata_notes(folder, fields))
    labelled: list[Path] = []
    loose: list[Path] = []
    for path in listed.loose:
        (labelled if "label" in notes.get(path.name, {}) else loose).append(path)
    images = [(path, path.relative_to(folder).as_posix()) for path in sorted((*labelled, *listed.images))]
    unsaid = dict.fromkeys(path.parent.name for path, name in images if "label" not in notes.get(name, {}))
    remedy = "move it into one, or give it a label in labels.csv or metadata.csv"
    called = _classes_of(folder, unsaid, classes or ())
    labels = {name: _label(path, notes.get(name, {}), called) for path, name in images}
    column = {name: note["mask"] for name, note in notes.items() if "mask" in note}
    masks = folder_masks(listed, column, labels)
    return ImageFolder(
        [(path, name) for path, name in images if path not in masks.files],
        notes,
        called,
        [*listed.left_out, *left_out_loose(loose, remedy), *masks.left_out],
        masks.masks,
    )


def _label(path: Path, note: Mapping[str, str], called: Mapping[str, str]) -> str:
    return note["label"] if "label" in note else called[path.parent.name]


def _classes_of(folder: Path, names: Iterable[str], classes: Sequence[str]) -> dict[str, str]:
    kept = {name: name for name in names if name in classes}
    others = [name for name in names if name not in kept]
    given = read_names(folder / NAMES) if others and (folder / NAMES).is_file() else {}
    return kept | folder_classes(others, given)


def _mask(mask: Path | Outline | None) -> bytes | Outline | None:
    return (_read(mask) or b"") if isinstance(mask, Path) else mask


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
