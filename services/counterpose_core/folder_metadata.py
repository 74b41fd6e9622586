"""What a folder's ``metadata.jsonl`` or ``metadata.csv`` says of its images, line by line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from counterpose_core.errors import InvalidRequest
from counterpose_core.image_folders import LABELS, METADATA

_IMAGE, _CLASS = (("filename", "file", "image", "image_path", "path"), ("class", "class_name", "category"))
_COLUMNS = dict.fromkeys(_IMAGE, "file_name") | dict.fromkeys(_CLASS, "label")
"""Columns of a table of labels, and what `metadata.csv` calls them."""
FIELDS = ("label", "caption", "group", "mask", "labels")
"""What a line may say of an image; each has to be text, also where a reader asks for others."""


def metadata_notes(folder: Path, fields: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return what the folder's metadata says of each image, by the name that it writes; {} without any.

    A line of ``metadata.jsonl`` is ``{"file_name": "plate/1.png", "group": "video-3"}``, where all but the
    name are optional; ``labels`` is a list of further labels. ``metadata.csv`` has such columns, with bars
    between further labels. Without either, ``labels.csv`` is read, whose columns may be called
    otherwise, such as ``filename`` and ``class``. Only ``fields`` are returned.

    Raises:
        InvalidRequest: the file cannot be read, a line has another form, or two lines of one image differ.
    """
    path = next((folder / name for name in METADATA if (folder / name).is_file()), None)
    return {} if path is None else read_notes(path, fields)


def read_notes(path: Path, fields: tuple[str, ...], *, required: bool = False) -> dict[str, dict[str, str]]:
    """Return what a file of metadata says of each image; see `metadata_notes`.

    Args:
        path: a table if its name ends in ``.csv``, else lines of JSON.
        fields: those that are returned.
        required: whether each line has to say all of them; then nothing else that it says is looked at.

    Raises:
        InvalidRequest: the file cannot be read, a line has another form, or two lines of one image differ.
    """
    notes: dict[str, dict[str, str]] = {}
    for number, row in read_rows(path):
        other_form = f'line {number} of {str(path)!r} is not {{"file_name": ..., "{fields[-1]}": ...}}'
        name = row.get("file_name")
        if not isinstance(name, str) or not name:
            raise InvalidRequest(f"{other_form}: it names no image")
        for field in fields if required else FIELDS:
            value = _labels(row.get(field)) if field == "labels" else row.get(field)
            if not isinstance(value, str | None) or _is_half(value):
                form = "a list of names" if field == "labels" else "text"
                raise InvalidRequest(f"{other_form}: {field!r} has to be {form}")
            if required and not (value or "").strip():
                raise InvalidRequest(f"{other_form}: it has no {field}")
            if (
                field in fields
                and value is not None
                and notes.setdefault(name, {}).setdefault(field, value) != value
            ):
                raise InvalidRequest(
                    f"line {number} of {str(path)!r} gives {name!r} a second {field}; keep one"
                )
    return notes


def further_labels(note: Mapping[str, str]) -> tuple[str, ...]:
    """Return the further labels that a note gives its image."""
    return tuple(json.loads(note.get("labels", "[]")))


def _labels(value: object) -> object:
    """Further labels as JSON: those of a list, or of a table's cell, parted by bars."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split("|") if name.strip()]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return value
    return json.dumps(value, ensure_ascii=False) if value else None


def read_rows(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the number of each line of a file and what it says by field, none where it is of another form.

    Raises:
        InvalidRequest: the file cannot be read.
    """
    try:
        # Excel writes a mark before the first column's name.
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InvalidRequest(f"line {line} of {str(path)!r} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise InvalidRequest(f"cannot read {str(path)!r}: {error}") from error
    yield from (
        _table(text, _COLUMNS if path.name == LABELS else {}) if path.suffix == ".csv" else _lines(text)
    )


def _lines(text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                said = None
            yield number, _by_field(said) if isinstance(said, dict) else {}


def _table(text: str, columns: Mapping[str, str]) -> Iterator[tuple[int, Mapping[str, object]]]:
    head = text.partition("\n")[0]
    # Where a comma parts decimals, spreadsheets part cells by semicolons.
    mark = ";" if ";" in head and "," not in head else ","
    rows = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True, delimiter=mark)
    for number, row in enumerate(rows, start=2):
        # A table has a cell for every column of every image: an empty one says nothing.
        yield number, {columns.get(name, name): cell for name, cell in _by_field(row).items() if cell}


def _is_half(text: str | None) -> bool:
    # JSON can contain a lone surrogate, which no answer can encode.
    return text is not None and text.encode(errors="replace").decode() != text


def _by_field(row: Mapping[str | None, object]) -> dict[str, object]:
    # Cells without a column have None for its name.
    return {name.strip().lower(): said for name, said in row.items() if name is not None}
