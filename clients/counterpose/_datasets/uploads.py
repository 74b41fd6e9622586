"""Labelled images on their way to the gateway: cut into batches, and what was skipped or rejected."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from counterpose_core.contract.datasets import Outline, Pairing, RejectedSource, SourcesAdded, SourceUpload
from counterpose_core.errors import ImageTooLarge, ImageUndecodable, InvalidRequest, RequestError

UPLOAD_BATCH = 32
UPLOAD_BYTES = 16_000_000
"""Half of the gateway's largest body: one more image than planned still fits."""
LARGEST_IMAGE = 22_500_000
"""Bytes; the contract takes 30 million base64 characters, and one rejected image rejects its batch."""


class LabelledImage(ABC):
    """An image with its class; its bytes are read when they are sent."""

    label: str
    caption: str | None
    group: str | None
    pair: Pairing | None = None
    labels: tuple[str, ...] = ()

    @property
    @abstractmethod
    def filename(self) -> str:
        """The name that reports and exports show."""

    @abstractmethod
    def content(self) -> bytes | None:
        """The bytes of a PNG, JPEG or WebP file; None if they cannot be read."""

    def where(self) -> bytes | Outline | None:
        """The file of a mask of its object or the object's outline; no bytes if the file cannot be read."""
        return None

    @property
    def name(self) -> str:
        """Class and file name with a slash, as ``metadata.jsonl`` has them."""
        return f"{self.label}/{self.filename}"


class Uploaded(SourcesAdded):
    """What became of all images of an upload."""

    names: dict[str, str] = {}
    """Classes that are not called as their folders, by folder."""


@dataclass
class Upload:
    """An upload of labelled images: batches to send, and the images that were skipped.

    ``names``: the classes that are not called as their folders, by folder. ``classes``: those of the dataset
    in order, or None to take them from the labels.
    """

    images: Iterable[LabelledImage]
    names: Mapping[str, str] = field(default_factory=dict)
    classes: Sequence[str] | None = None
    skipped: list[RejectedSource] = field(default_factory=list)

    def batches(self) -> Iterator[list[SourceUpload]]:
        """Cut the images into batches of at most 32 and about 16 MB; one batch is in memory at a time."""
        batch: list[SourceUpload] = []
        size = 0
        for source in self._readable():
            length = len(source.content_base64) + len(source.mask_base64 or "")
            if batch and (len(batch) >= UPLOAD_BATCH or size + length > UPLOAD_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(source)
            size += length
        if batch:
            yield batch

    def total(self, answers: Sequence[SourcesAdded]) -> Uploaded:
        """Sum up the responses to all batches."""
        rejected = [rejected for answer in answers for rejected in answer.rejected]
        return Uploaded(
            added=sum(answer.added for answer in answers),
            rejected=[*self.skipped, *rejected],
            names=dict(self.names),
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


def _upload_of(image: LabelledImage) -> SourceUpload | RejectedSource:
    try:
        content = image.content()
    except InvalidRequest as error:
        return RejectedSource(filename=image.filename, code=error.code, detail=error.detail)
    # JSON cannot hold the lone surrogates that stand for bytes of a non-UTF-8 file name.
    shown = image.name.encode(errors="replace").decode()
    if not content or shown != image.name:
        detail = "the file cannot be read, or is empty"
        return RejectedSource(filename=shown, code=ImageUndecodable.code, detail=detail)
    if len(content) > LARGEST_IMAGE:
        detail = f"the file has more than {LARGEST_IMAGE} bytes; save it as a JPEG, or scale it down"
        return RejectedSource(filename=shown, code=ImageTooLarge.code, detail=detail)
    where = image.where()
    if isinstance(where, bytes) and not 0 < len(where) <= LARGEST_IMAGE:
        detail = f"the file of its mask cannot be read, is empty, or has more than {LARGEST_IMAGE} bytes"
        return RejectedSource(filename=shown, code=ImageUndecodable.code, detail=detail)
    # Built without validation: matching megabytes of base64 against a pattern takes longer than reading.
    return SourceUpload.model_construct(
        filename=image.filename,
        label=image.label,
        content_base64=base64.b64encode(content).decode("ascii"),
        caption=image.caption,
        group=image.group,
        mask_base64=base64.b64encode(where).decode("ascii") if isinstance(where, bytes) else None,
        outline=where if isinstance(where, Outline) else None,
        pair=image.pair,
        labels=list(image.labels),
    )
