"""Folders of labelled images: listing them, reading captions, cutting them into uploads."""

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

# The three formats that the gateway decodes; it would reject all others.
IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
UPLOAD_BATCH = 32
UPLOAD_BYTES = 16_000_000
"""Half of the gateway's largest body: one more image than planned still fits."""
LARGEST_IMAGE = 18_000_000
"""Bytes; the contract takes 24 million base64 characters, and one rejected image rejects its batch."""


@dataclass(frozen=True)
class Image:
    """A file in the folder; ``name`` is its path below the folder, with slashes."""

    label: str
    path: Path
    caption: str | None = None

    @property
    def name(self) -> str:
        """The name that ``metadata.jsonl`` uses."""
        return f"{self.label}/{self.path.name}"


def images_in(folder: str | Path, captions: Mapping[str, str] | None = None) -> list[Image]:
    """List the images of an ImageFolder, which has one subfolder per class.

    Raises:
        DatasetEmpty: ``folder`` holds no images.
        InvalidRequest: a caption names an image that does not exist.
    """
    root = Path(folder)
    captions = captions or {}
    found = [
        Image(path.parent.name, path, captions.get(f"{path.parent.name}/{path.name}"))
        # Sorted: disks list in any order, and one folder must always give the same name and batches.
        for path in sorted(root.glob("*/*"))
        if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()
    ]
    if not found:
        raise DatasetEmpty(
            f"no images in {str(folder)!r}: expected one subfolder per class with PNG, JPEG or WebP files"
        )
    # A misspelt name would silently leave its image to the captioner.
    if unmatched := sorted(set(captions) - {image.name for image in found}):
        raise InvalidRequest(f"{unmatched[0]!r} has a caption, but {str(root)!r} has no such image")
    return found


def read_captions(path: Path) -> dict[str, str]:
    """Read captions from JSON lines: ``{"file_name": "plate/1.png", "caption": "..."}``.

    Raises:
        InvalidRequest: the file cannot be read, or a line has another form.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read the captions {str(path)!r}: {error}") from error
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
    # A null would become the caption "None"; a lone surrogate, which JSON can write, cannot be sent.
    if not isinstance(value, str) or not value.strip() or value.encode(errors="replace").decode() != value:
        raise ValueError("no text")
    return value


def folder_digest(images: Sequence[Image]) -> str:
    """Return twelve hexadecimal digits that identify the upload: names, contents, captions."""
    digest = hashlib.sha256()
    for image in images:
        # An unreadable file is skipped; once it is repaired, the folder is another dataset.
        content = _content(image) or b""
        # Each part has its own digest: simply joined, two different folders could give the same bytes.
        for part in (
            image.name.encode(errors="surrogateescape"),
            (image.caption or "").encode(),
            content,
        ):
            digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:12]


@dataclass
class FolderUpload:
    """An upload of a folder: batches to send, and the images that were skipped."""

    images: Sequence[Image]
    skipped: list[RejectedSource] = field(default_factory=list)

    def batches(self) -> Iterator[list[SourceUpload]]:
        """Cut the images into batches of at most 32 and about 16 MB; one batch is in memory at a time."""
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
        """Sum up the responses to all batches."""
        rejected = [rejected for answer in answers for rejected in answer.rejected]
        return SourcesAdded(
            added=sum(answer.added for answer in answers), rejected=[*self.skipped, *rejected]
        )

    def _readable(self) -> Iterator[SourceUpload]:
        for image in self.images:
            made = _upload_of(image)
            if isinstance(made, SourceUpload):
                yield made
            else:
                self.skipped.append(made)


def none_taken(batch: Sequence[SourceUpload], error: RequestError) -> SourcesAdded:
    """Report a batch of which the gateway took no image; the next batch may succeed.

    Raises:
        RequestError: the whole request was rejected, not its images one by one.
    """
    if len(error.parts) != len(batch):
        raise error
    rejected = [
        RejectedSource(filename=source.filename, code=part.code, detail=part.detail, pointer=part.pointer)
        for source, part in zip(batch, error.parts, strict=True)
    ]
    return SourcesAdded(added=0, rejected=rejected)


def _upload_of(image: Image) -> SourceUpload | RejectedSource:
    content = _content(image)
    # JSON cannot hold the lone surrogates that stand for bytes of a non-UTF-8 file name.
    shown = image.name.encode(errors="replace").decode()
    if not content or shown != image.name:
        detail = "the file cannot be read, or is empty"
        return RejectedSource(filename=shown, code=ImageUndecodable.code, detail=detail)
    if len(content) > LARGEST_IMAGE:
        detail = f"the file has more than {LARGEST_IMAGE} bytes"
        return RejectedSource(filename=shown, code=ImageTooLarge.code, detail=detail)
    # Built without validation: matching megabytes of base64 against a pattern takes longer than reading.
    return SourceUpload.model_construct(
        filename=image.path.name,
        label=image.label,
        content_base64=base64.b64encode(content).decode("ascii"),
        caption=image.caption,
    )


def _content(image: Image) -> bytes | None:
    try:
        return image.path.read_bytes()
    except OSError:
        return None
