"""A folder with a subfolder of images for each class: its images, and what in it is left out and named."""

from __future__ import annotations

import os
import posixpath
import shlex
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import unquote

from counterpose_core.contract.datasets import RejectedSource
from counterpose_core.errors import ImageUndecodable, InvalidRequest, RequestError, UnsupportedMedia

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp"})
"""Endings of the three formats that are decoded."""
OTHER_SUFFIXES = frozenset(
    {".avif", ".bmp", ".gif", ".heic", ".heif", ".jp2", ".jxl", ".pgm", ".ppm", ".tga", ".tif", ".tiff"}
)
"""Endings of images that somebody would have to convert first."""
LABELS = "labels.csv"
"""A table of a flat folder's labels, whose columns have whatever names such tables have."""
METADATA = ("metadata.jsonl", "metadata.csv", LABELS)
"""What a folder says of its images; the first one that it has is read."""

MASKS = "masks"
"""A folder beside those of the classes, with the masks of their images; one of images alone is a class."""

NO_IMAGE = "the folder has no PNG, JPEG or WebP image"
OTHER_FORMAT = "the file has another format; convert it to PNG, JPEG or WebP"
TOO_DEEP = "a folder below a class's folder is not read; move its images up"
LOOSE = "the image lies in no class's folder"
"""Without what to do about it, which depends on where the folder is read."""

_PHOTOGRAPHIC = frozenset({".avif", ".heic", ".heif", ".jp2", ".jxl"})
"""Endings of images that a JPEG replaces; the others may have transparency or 16 bits, which a PNG keeps."""

_OF_SYSTEMS = frozenset({"__MACOSX", "@eaDir", "$RECYCLE.BIN"})

Note = TypeVar("Note")


def is_hidden(name: str) -> bool:
    """Whether a file or folder is none of the user's: ``.ipynb_checkpoints``, ``._1.png``, ``__MACOSX``."""
    return name in _OF_SYSTEMS or (name.startswith(".") and name not in (".", ".."))


@dataclass(frozen=True)
class ClassFolders:
    """The images of a folder: those of its subfolders, and ``loose`` ones beside them, each in order.

    ``left_out`` names all else that a user may take for images of the folder; ``masks`` is the folder of its
    masks, if it has one.
    """

    root: Path
    images: Sequence[Path]
    loose: Sequence[Path]
    left_out: Sequence[RejectedSource]
    masks: Path | None = None
    _names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in (*self.images, *self.loose):
            name = path.relative_to(self.root).as_posix()
            self._names[unicodedata.normalize("NFC", name)] = name
            self._names[name] = name

    def by_image(self, what: str, notes: Mapping[str, Note]) -> dict[str, Note]:
        """Return notes on images by the image's path below the folder, whatever spelling they have.

        Backslashes, ``./``, ``%20``, whole paths and those that begin with the folder's name are understood.

        Raises:
            InvalidRequest: an image has no note of its own, as there is none of its name or two differ.
        """
        by_name: dict[str, Note] = {}
        for written in sorted(notes):
            name = self.named(written)
            if name is None:
                other = next(iter(self._names.values()), None)
                raise InvalidRequest(
                    f"{written!r} has a {what}, but {str(self.root)!r} has no such image"
                    + (f"; write the path below the folder, such as {other!r}" if other else "")
                )
            if by_name.setdefault(name, notes[written]) != notes[written]:
                raise InvalidRequest(f"{name!r} has two {what}s under different spellings; keep one")
        return by_name

    def named(self, written: str) -> str | None:
        """Return the path below the folder of the image that is meant, or None; see `by_image`."""
        if written in self._names:
            return self._names[written]
        tops = (self.root.as_posix(), self.root.absolute().as_posix(), self.root.resolve().as_posix())
        for spelling in (written, written.replace("\\", "/"), unquote(written.replace("\\", "/"))):
            path = posixpath.normpath(unicodedata.normalize("NFC", spelling))
            for top in ("", *(f"{each}/" for each in (*tops, self.root.name))):
                name = path.removeprefix(top)
                if name in self._names:
                    return self._names[name]
                # What is left out is named as such.
                if any(name == out.filename or name.startswith(f"{out.filename}/") for out in self.left_out):
                    return name
        return None


def read_class_folders(root: Path) -> ClassFolders:
    """List a folder's images, which lie in one subfolder per class; nothing is opened."""
    images: list[Path] = []
    loose: list[Path] = []
    left_out: list[RejectedSource] = []
    masks: Path | None = None
    # Sorted: disks list in any order, and one folder must always give the same name and batches.
    for path in _entries(root, "", left_out):
        if not path.is_dir():
            if _is_image(path):
                loose.append(path)
            else:
                left_out += _not_read(path, path.name)
            continue
        if path.name == MASKS and _holds_masks(path):
            masks = path
            continue
        own: list[Path] = []
        inner: list[RejectedSource] = []
        for entry in _entries(path, path.name, inner):
            # On a network disk each question about a file is a trip: one for an image.
            if _is_image(entry):
                own.append(entry)
            else:
                inner += _reasons(entry, f"{path.name}/{entry.name}")
        images += own
        left_out += inner
        if not own and not inner:
            left_out.append(_left_out(f"{path.name}/", ImageUndecodable(NO_IMAGE)))
    return ClassFolders(root, images, loose, left_out, masks)


def other_format(name: str) -> str:
    """Say by which command the images of a folder that have the format of one of them are converted."""
    path = PurePosixPath(name)
    ending = "jpg" if path.suffix.lower() in _PHOTOGRAPHIC else "png"
    alike = shlex.quote(f"{path.parent / '*'}{path.suffix}[0]")
    return (
        "the file has another format; convert it with those like it, in the dataset's folder: mogrify "
        f"-format {ending} {alike} (ImageMagick; [0] is the first page or frame)"
    )


def left_out_loose(images: Sequence[Path], remedy: str) -> Iterator[RejectedSource]:
    """Name images that are of no class, as they lie in no subfolder."""
    for path in images:
        yield _left_out(path.name, InvalidRequest(f"{LOOSE}; {remedy}"))


def _entries(folder: Path, name: str, left_out: list[RejectedSource]) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not is_hidden(path.name))
    except OSError as error:
        if name:
            fault = ImageUndecodable(f"the folder cannot be read: {error.strerror}")
            left_out.append(_left_out(f"{name}/", fault))
        return []


def _holds_masks(folder: Path) -> bool:
    """Whether a folder of this name has the folders of the classes in it, or is beside images of no class."""
    entries = _entries(folder, MASKS, [])
    beside = _entries(folder.parent, "", [])
    return any(each.is_dir() for each in entries) or any(map(_is_image, beside))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file()


def _reasons(path: Path, name: str) -> list[RejectedSource]:
    """Say why what is no image of a class's folder is left out; nothing where nobody takes it for one."""
    if path.is_dir():
        # A link is not followed: it may lead to the whole disk.
        has_image = path.is_symlink() or any(
            Path(file).suffix.lower() in SUFFIXES | OTHER_SUFFIXES and not is_hidden(file)
            for _, _, files in os.walk(path)
            for file in files
        )
        return [_left_out(name, InvalidRequest(TOO_DEEP))] if has_image else []
    if path.name in METADATA:
        detail = "metadata is read only beside the classes' folders; move its lines there"
        return [_left_out(name, InvalidRequest(detail))]
    return _not_read(path, name)


def _not_read(path: Path, name: str) -> list[RejectedSource]:
    """Say why what is neither an image nor a folder is left out, where its name is that of an image."""
    if path.suffix.lower() in SUFFIXES:
        return [_left_out(name, ImageUndecodable("it is no file; restore or remove it"))]
    if path.suffix.lower() not in OTHER_SUFFIXES:
        return []
    return [_left_out(name, UnsupportedMedia(other_format(name)))]


def _left_out(name: str, fault: RequestError) -> RejectedSource:
    # JSON cannot hold the lone surrogates that stand for bytes of a non-UTF-8 file name.
    filename = name.encode(errors="replace").decode()[:255]
    return RejectedSource(filename=filename, code=fault.code, detail=fault.detail)
