"""Folders of labelled pictures: what is in them, the captions that come along, how they are uploaded."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faultline_core.contract.datasets import RejectedSource, SourcesAdded, SourceUpload
from faultline_core.errors import (
    DatasetEmpty,
    ImageTooLarge,
    ImageUndecodable,
    InvalidRequest,
    RequestError,
)

# The three formats that the gateway decodes; others would be sent only to be refused.
PICTURE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
UPLOAD_BATCH = 32
UPLOAD_BYTES = 16_000_000
"""Half of what the gateway takes in one body: a picture more than planned still fits."""
LARGEST_PICTURE = 18_000_000
"""Bytes; the contract takes 24 million characters of base64, and one refused picture refuses its batch."""


@dataclass(frozen=True)
class Picture:
    """A file of the folder; ``name`` is its path below the folder, with slashes."""

    label: str
    path: Path
    caption: str | None = None

    @property
    def name(self) -> str:
        """As ``metadata.jsonl`` names it."""
        return f"{self.label}/{self.path.name}"


def pictures_in(folder: str | Path, captions: Mapping[str, str] | None = None) -> list[Picture]:
    """The pictures of an ImageFolder: one folder a class.

    Raises:
        DatasetEmpty: there is no picture below ``folder``.
        InvalidRequest: a caption names no picture.
    """
    root = Path(folder)
    captions = captions or {}
    found = [
        Picture(path.parent.name, path, captions.get(f"{path.parent.name}/{path.name}"))
        # Sorted: a disk lists in any order, and the same folder must make the same name and batches.
        for path in sorted(root.glob("*/*"))
        if path.suffix.lower() in PICTURE_SUFFIXES and path.is_file()
    ]
    if not found:
        raise DatasetEmpty(
            f"no picture in {str(folder)!r}: expected one folder a class with PNG, JPEG or WebP files"
        )
    # A misspelt name would silently leave its picture to the captioner.
    if strangers := sorted(set(captions) - {picture.name for picture in found}):
        raise InvalidRequest(f"{strangers[0]!r} has a caption, but there is no such picture in {str(root)!r}")
    return found


def read_captions(path: Path) -> dict[str, str]:
    """Captions by picture from JSON lines: ``{"file_name": "plate/1.png", "caption": "..."}``.

    Raises:
        InvalidRequest: the file cannot be read, or a line is not of this form.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the captions {str(path)!r} cannot be read: {error}") from error
    captions: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        try:
            note = json.loads(line)
            captions[_text(note["file_name"])] = _text(note["caption"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InvalidRequest(
                f'line {number} of {str(path)!r} is not {{"file_name": ..., "caption": ...}}'
            ) from error
    return captions


def _text(value: object) -> str:
    # A null would become the caption "None"; half a character, which JSON can write, could not be sent.
    if not isinstance(value, str) or not value.strip() or value.encode(errors="replace").decode() != value:
        raise ValueError("no text")
    return value


def folder_digest(pictures: Sequence[Picture]) -> str:
    """Twelve hexadecimal digits of all that is uploaded: names, contents, captions."""
    digest = hashlib.sha256()
    for picture in pictures:
        # A file that cannot be read is left out of the upload; mended, the folder is another dataset.
        content = _content(picture) or b""
        # Each part by its own digest: joined bare, two folders could read the same.
        for part in (
            picture.name.encode(errors="surrogateescape"),
            (picture.caption or "").encode(),
            content,
        ):
            digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:12]


@dataclass
class FolderUpload:
    """A folder on its way: batches to send, and the pictures that were left out before they were sent."""

    pictures: Sequence[Picture]
    left_out: list[RejectedSource] = field(default_factory=list)

    def batches(self) -> Iterator[list[SourceUpload]]:
        """Cut the pictures into uploads of at most 32 and about 16 MB; only one batch is in memory."""
        batch: list[SourceUpload] = []
        size = 0
        for source in self._readable():
            length = len(source.content_base64)
            if batch and (len(batch) >= UPLOAD_BATCH or size + length > UPLOAD_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(source)
            size += length
        if batch:
            yield batch

    def total(self, answers: Sequence[SourcesAdded]) -> SourcesAdded:
        """What came of all batches together."""
        rejected = [rejected for answer in answers for rejected in answer.rejected]
        return SourcesAdded(
            added=sum(answer.added for answer in answers), rejected=[*self.left_out, *rejected]
        )

    def _readable(self) -> Iterator[SourceUpload]:
        for picture in self.pictures:
            made = _upload_of(picture)
            if isinstance(made, SourceUpload):
                yield made
            else:
                self.left_out.append(made)


def none_taken(batch: Sequence[SourceUpload], error: RequestError) -> SourcesAdded:
    """What came of a batch of which the gateway took nothing: the next one may fare better.

    Raises:
        RequestError: the batch was refused as a request, not picture by picture.
    """
    if len(error.parts) != len(batch):
        raise error
    rejected = [
        RejectedSource(filename=source.filename, code=part.code, detail=part.detail, pointer=part.pointer)
        for source, part in zip(batch, error.parts, strict=True)
    ]
    return SourcesAdded(added=0, rejected=rejected)


def _upload_of(picture: Picture) -> SourceUpload | RejectedSource:
    content = _content(picture)
    # JSON has no place for the lone surrogates that stand for bytes of a name that is no UTF-8.
    shown = picture.name.encode(errors="replace").decode()
    if not content or shown != picture.name:
        detail = "the file cannot be read, or is empty"
        return RejectedSource(filename=shown, code=ImageUndecodable.code, detail=detail)
    if len(content) > LARGEST_PICTURE:
        detail = f"the file has more than {LARGEST_PICTURE} bytes"
        return RejectedSource(filename=shown, code=ImageTooLarge.code, detail=detail)
    # Built without validation: matching megabytes of base64 against a pattern takes longer than reading them.
    return SourceUpload.model_construct(
        filename=picture.path.name,
        label=picture.label,
        content_base64=base64.b64encode(content).decode("ascii"),
        caption=picture.caption,
    )


def _content(picture: Picture) -> bytes | None:
    try:
        return picture.path.read_bytes()
    except OSError:
        return None
