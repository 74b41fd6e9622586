"""What a folder's ``metadata.jsonl`` or ``metadata.csv`` says of its images: labels, captions, groups."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from counterpose_core.errors import InvalidRequest

METADATA = ("metadata.jsonl", "metadata.csv")
"""The first one that a folder has is read."""


class _Note(BaseModel):
    """A line; other fields are ignored."""

    file_name: str
    label: str | None = None
    caption: str | None = None
    group: str | None = None


def read_metadata(folder: Path) -> dict[str, dict[str, str]]:
    """Read the notes on each image, by its path below the folder; none without such a file.

    A line of ``metadata.jsonl`` is ``{"file_name": "plate/1.png", "label": "plate", "caption": "...",
    "group": "video-3"}``, where all but the name are optional; ``metadata.csv`` has columns of these names.

    Raises:
        InvalidRequest: a line is not of this form.
    """
    path = next((folder / name for name in METADATA if (folder / name).is_file()), None)
    if path is None:
        return {}
    notes: dict[str, dict[str, str]] = {}
    for note in _table(path) if path.suffix == ".csv" else _lines(path):
        notes[note.file_name] = note.model_dump(include={"label", "caption", "group"}, exclude_none=True)
    return notes


def _lines(path: Path) -> Iterator[_Note]:
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            try:
                yield _Note.model_validate_json(line)
            except ValidationError as error:
                raise _not_a_note(path, number, error) from error


def _table(path: Path) -> Iterator[_Note]:
    try:
        # Excel writes a mark before the first column's name.
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{str(path)!r} is not UTF-8; save it as UTF-8") from error
    for number, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        # A table has a cell for every column of every image: an empty one says nothing.
        said = {column: cell for column, cell in row.items() if column is not None and cell}
        try:
            yield _Note.model_validate(said)
        except ValidationError as error:
            raise _not_a_note(path, number, error) from error


def _not_a_note(path: Path, number: int, error: ValidationError) -> InvalidRequest:
    (field, *_), *_ = [each["loc"] or ("file_name",) for each in error.errors()]
    if field == "file_name":
        return InvalidRequest(f'line {number} of {str(path)!r} names no image; give it a "file_name"')
    return InvalidRequest(f"line {number} of {str(path)!r}: {str(field)!r} has to be text")
