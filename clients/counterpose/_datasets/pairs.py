"""A table of pairs that were made elsewhere: sources, what was made of them, and what was changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from counterpose._datasets.folders import ImageFile, images_in
from counterpose._datasets.uploads import LabelledImage
from counterpose_core.contract.datasets import HIGHEST_LEVEL, Pairing
from counterpose_core.contract.field_errors import checked
from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.folder_metadata import read_rows
from counterpose_core.image_folders import SUFFIXES, read_class_folders

COLUMNS = ("source", "counterfactual", "change", "level", "control", "not_made")
LONGEST_NAME = 255


@dataclass(frozen=True)
class PairFile(LabelledImage):
    """An image of a pair; ``filename`` is its path below the folder of the table."""

    label: str
    path: Path
    shown: str
    pair: Pairing
    caption: str | None = None
    group: str | None = None

    @property
    def filename(self) -> str:
        """The name that reports show."""
        return self.shown

    name = filename
    """The same."""

    def content(self) -> bytes | None:
        """The file's bytes; None if it cannot be read."""
        try:
            return self.path.read_bytes()
        except OSError:
            return None


def pairs_in(table: str | Path, folder: str | Path, names: Mapping[str, str] | None = None) -> list[PairFile]:
    """List the images of a table of pairs, each control once; see ``docs/how-to/pairs.md`` for its columns.

    Args:
        table: ``.csv``, or lines of JSON with the same fields.
        folder: the folder of the sources, as `images_in` reads it.
        names: class names by subfolder, as of `images_in`.

    Raises:
        DatasetEmpty: the table has no row, or the folder no image.
        InvalidRequest: a line has another form, names an image that does not exist or lies elsewhere, a level
            that is no whole number, or what another line has already.
    """
    rows = _Rows(Path(table), Path(folder), {image.name: image for image in images_in(folder, names=names)})
    for number, row in read_rows(rows.table):
        rows.take(number, row)
    if not rows.images:
        raise DatasetEmpty(f"{str(table)!r} has no row; its columns are {', '.join(COLUMNS)}")
    return rows.images


def pairs_digest(images: list[PairFile]) -> str:
    """Return twelve hexadecimal digits that identify an upload of pairs: rows and contents."""
    digest = hashlib.sha256()
    for image in images:
        for part in (image.shown, image.label, image.pair.model_dump_json(), image.content() or b""):
            data = part if isinstance(part, bytes) else part.encode(errors="surrogateescape")
            digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()[:12]


@dataclass
class _Rows:
    """What the lines of a table say so far."""

    table: Path
    folder: Path
    sources: Mapping[str, ImageFile]
    images: list[PairFile] = field(default_factory=list)
    lines: dict[object, int] = field(default_factory=dict)
    controls: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.listed = read_class_folders(self.folder)
        self.own = {image.path.resolve() for image in self.sources.values()}

    def take(self, number: int, row: Mapping[str, object]) -> None:
        """Take one line.

        Raises:
            InvalidRequest: as of `pairs_in`; the line is named.
        """
        try:
            self._take(number, row)
        except InvalidRequest as error:
            raise InvalidRequest(f"line {number} of {str(self.table)!r}: {error.detail}") from error

    def _take(self, number: int, row: Mapping[str, object]) -> None:
        why = _text(row, "not_made", needed=False) or None
        written, made = (_text(row, name) for name in COLUMNS[:2])
        # Of a control that was not made, nothing was to change.
        change = _text(row, "change", needed=why is None) or None
        source = self.sources.get(self.listed.named(written) or "")
        if source is None:
            such = next(iter(self.sources))
            raise InvalidRequest(
                f"{str(self.folder)!r} has no image {written!r}; write the source's path below it, such as "
                f"{such!r}"
            )
        level = _level(row.get("level"))
        self._once((source.name, change, level), number, f"{written!r} has {change!r} at level {level}")
        if why is not None:
            self._add(source, source.path, made, change=change, level=level, not_made=why)
            return
        path = self._inside(made)
        if path.resolve() in self.own:
            raise InvalidRequest(
                f"{made!r} is an image of {str(self.folder)!r}, too; keep what was made in another folder"
            )
        self._once(path.resolve(), number, f"{made!r} is of a pair")
        self._add(source, path, made, change=change, level=level)
        control = _text(row, "control", needed=False)
        if control and self.controls.setdefault(source.name, control) != control:
            raise InvalidRequest(
                f"{written!r} has the control {self.controls[source.name]!r} already; give it one control"
            )
        if control and self.lines.setdefault(("control", source.name), number) == number:
            is_source = self.listed.named(control) == source.name
            shown = f"control/{source.name}" if is_source else control
            self._add(source, source.path if is_source else self._inside(control), shown)

    def _add(self, source: ImageFile, path: Path, shown: str, **told: object) -> None:
        pair = checked(Pairing, {"source": source.filename, **told})
        shown = str(PurePosixPath(shown.replace("\\", "/")))
        if len(shown) > LONGEST_NAME:
            raise InvalidRequest(f"{shown!r} has more than {LONGEST_NAME} characters; shorten the path")
        self.images.append(PairFile(source.label, path, shown, pair))

    def _once(self, key: object, number: int, what: str) -> None:
        before = self.lines.setdefault(key, number)
        if before != number:
            raise InvalidRequest(f"{what} in line {before} already; keep one of both lines")

    def _inside(self, written: str) -> Path:
        root, path = self.table.parent, self.table.parent / written.replace("\\", "/")
        is_whole = PurePosixPath(written).is_absolute() or bool(PureWindowsPath(written).anchor)
        if is_whole or not path.resolve().is_relative_to(root.resolve()):
            raise InvalidRequest(
                f"{written!r} does not lie below the folder of the table; move it there, and write its path "
                "from there"
            )
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            raise InvalidRequest(f"there is no PNG, JPEG or WebP file {written!r} beside the table")
        return path


def _text(row: Mapping[str, object], name: str, *, needed: bool = True) -> str:
    value = row.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequest(f"it has no {name}; a line needs {', '.join(COLUMNS[:3])}")
    return value.strip()


def _level(value: object) -> int:
    text = "1" if value is None else str(value).strip().removesuffix(".0")
    if isinstance(value, bool) or not (
        text.isascii() and text.isdecimal() and 1 <= int(text) <= HIGHEST_LEVEL
    ):
        raise InvalidRequest(
            f"the level {value!r} is no whole number from 1 to {HIGHEST_LEVEL}; number the levels from the "
            "slightest on"
        )
    return int(text)
