"""Dataset intake: from uploaded bytes to stored images, each checked separately.

Intake of masks: what comes with an image is checked against it and packed for the store.
"""

from __future__ import annotations

import base64
import binascii
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.datasets import Outline, RejectedSource, SourcesAdded, SourceUpload
from counterpose_core.errors import (
    ClassMapMismatch,
    CounterposeError,
    DatasetEmpty,
    ImageTooLarge,
    ImageUndecodable,
    InvalidRequest,
    QuotaExceeded,
    RequestError,
    error_for,
)
from counterpose_core.images.codecs import LARGEST_PHOTOGRAPH, Pixels, decode_image
from counterpose_core.images.file_structure import MAX_CHUNKS
from counterpose_core.images.masks import alpha_mask, file_mask, mask_pixels, outline_mask
from counterpose_core.images.packing import PackedImage, pack
from counterpose_core.text.folder_names import notes_on_names
from counterpose_core.text.plain_text import (
    Appearances,
    check_name,
    find_confusable,
    strip_invisible,
)
from counterpose_gateway.images.folder import RawSource, read_folder
from counterpose_gateway.images.pixels import PIXELS
from counterpose_gateway.images.quota import Quotas, Room
from counterpose_gateway.images.source_text import LONGEST_LABEL, check_source
from counterpose_gateway.records.sources import NewSource

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

SMALLEST_SIDE = 8
"""Pixels; smaller images show nothing that an edit could change."""
LARGEST_FILE = 48_000_000
CLASSES = "classes.json"
_BATCH = 1000


def take_in(
    sources: Iterable[RawSource],
    store: BlobStore,
    classes: Sequence[str] | None,
    *,
    labels: Sequence[str] = (),
    groups: Mapping[str, str] | None = None,
    room: Room | None = None,
) -> tuple[list[NewSource], list[RejectedSource]]:
    """Store the pixels of each readable image, without its metadata, and name those that were refused.

    Without fixed ``classes``, a label may not look like one of ``labels`` or of the images before it. The
    images of a group are of one class: that in ``groups``, or that of its first image.
    """
    known = Appearances(labels)
    class_of = dict(groups or {})
    taken: list[NewSource] = []
    rejected: list[RejectedSource] = []
    for source in sources:
        try:
            require_distinct(source.label, known)
            _require_one_class(source, class_of)
            taken.append(admit(source, store, classes, room))
            known.add(source.label)
            if source.group is not None:
                class_of[source.group] = source.label
        except RequestError as error:
            rejected.append(rejected_source(source, error))
    return taken, rejected


def rejected_source(source: RawSource, error: RequestError) -> RejectedSource:
    """Name an image that was refused, with the reason."""
    field = error.pointer or "/content_base64"
    return RejectedSource(
        filename=strip_invisible(source.filename), code=error.code, detail=error.detail,
        pointer=None if source.pointer is None else source.pointer + field,
    )  # fmt: skip


def require_distinct(label: str, known: Appearances) -> None:
    """Refuse a label that looks like another one of ``known``.

    Raises:
        ClassMapMismatch: it does.
    """
    if (other := known.twin(label) or label) != label:
        detail = f"the label {strip_invisible(label)!r} looks like the class {other!r}; spell both the same"
        raise ClassMapMismatch(detail, pointer="/label")


def _require_one_class(source: RawSource, class_of: Mapping[str, str]) -> None:
    # Their answers are compared within a class: a group of two could be on neither side of a division.
    if source.group is not None and (other := class_of.get(source.group, source.label)) != source.label:
        named = f"the group {strip_invisible(source.group)!r} has images of the classes"
        classes = f"{strip_invisible(other)!r} and {strip_invisible(source.label)!r}"
        raise InvalidRequest(f"{named} {classes}; give each class groups of its own", pointer="/group")


def _uploaded(uploads: Sequence[SourceUpload]) -> Iterator[RawSource]:
    for number, upload in enumerate(uploads):
        yield RawSource(
            filename=upload.filename,
            label=upload.label,
            caption=upload.caption,
            group=upload.group,
            content=_from_base64(upload.content_base64),
            mask=_uploaded_mask(upload),
            pair=upload.pair,
            labels=tuple(upload.labels),
            pointer=f"/sources/{number}",
        )


def add_uploads(
    name: str, uploads: Sequence[SourceUpload], ledger: Ledger, store: BlobStore, quotas: Quotas | None = None
) -> SourcesAdded:
    """Take uploads into a dataset; the answer names each refused one.

    Raises:
        DatasetNotReady: the dataset is being imported.
        QuotaExceeded: other requests took the room that was left for the images.
        UnknownDataset: no dataset has this name.
        RequestError: every image was refused; its ``parts`` give the reasons, one by one.
    """
    ledger.datasets.add(name, [])  # refused before anything is stored, if it is being imported
    labels = ledger.datasets.classes(name)
    classes = labels if ledger.datasets.has_fixed_classes(name) else None
    groups = ledger.datasets.group_classes(name)
    room = _room(name, ledger, quotas)
    taken, rejected = take_in(_uploaded(uploads), store, classes, labels=labels, groups=groups, room=room)
    if not taken:
        raise _refusal_of_all(rejected)
    try:
        added = ledger.datasets.add(name, taken, check=None if quotas is None else quotas.check)
    except CounterposeError:
        ledger.blobs.leave(name, taken)
        raise
    return SourcesAdded(added=added, rejected=rejected)


def _room(name: str, ledger: Ledger, quotas: Quotas | None) -> Room | None:
    if quotas is None:
        return None
    return Room(quotas, ledger.datasets.stored(name), partial(ledger.datasets.has_source, name))


def _refusal_of_all(rejected: Sequence[RejectedSource]) -> CounterposeError:
    """Join refusals under their own code, or as an invalid request where their codes differ."""
    parts = [error_for(one.code, one.detail, pointer=one.pointer) for one in rejected]
    codes = {part.code for part in parts}
    code = codes.pop() if len(codes) == 1 else InvalidRequest.code
    others = f"; {len(parts) - 1} more are refused" if len(parts) > 1 else ""
    detail = f"{rejected[0].filename!r}: {rejected[0].detail}{others}"
    return error_for(code, detail, pointer=rejected[0].pointer, parts=parts)


def checked_classes(classes: Sequence[str] | None) -> list[str] | None:
    """Return a dataset's class names, or None if its labels are to decide.

    Raises:
        ClassMapMismatch: the list is empty, a name is not plain text, or two names look alike.
    """
    if classes is None:
        return None
    for name in classes:
        _require_class_name(name)
    # A prediction's index must name one class, and a reader must be able to tell which.
    alike = find_confusable(classes)
    if not classes:
        raise ClassMapMismatch("the list of classes is empty; name at least one", pointer="/classes")
    if alike:
        detail = f"the classes {alike[0]!r} and {alike[1]!r} look alike; rename one"
        raise ClassMapMismatch(detail, pointer="/classes")
    return list(classes)


def _require_class_name(name: str) -> None:
    try:
        check_name(name, field="class", most=LONGEST_LABEL)
    except InvalidRequest as error:
        raise ClassMapMismatch(error.detail, pointer="/classes") from error


def register_folder(
    name: str,
    folder: Path,
    ledger: Ledger,
    store: BlobStore,
    *,
    with_captions: bool = False,
    quotas: Quotas | None = None,
) -> list[str]:
    """Make the dataset ``name`` of a folder on this machine; repeating it adds only new images.

    A stress test asks the captioner unless the captions of ``metadata.jsonl`` are requested. Returns notes on
    classes that are not called as their folders.

    Raises:
        DatasetEmpty: no image in it could be read.
        InvalidRequest: ``folder`` is not a folder, one in it is a WordNet id without a name, or the dataset
            exists with other classes.
        QuotaExceeded: there are too many datasets, or other writers took the room that was left.
    """
    if not folder.is_dir():
        raise InvalidRequest(f"{str(folder)!r} is not a folder; name one that holds a folder for each class")
    classes = checked_classes(_read_classes(folder / CLASSES))
    # A written caption differs from the captioner's: a run uses one kind or the other.
    sources = read_folder(folder, classes, with_captions=with_captions)
    known = next((found for found in ledger.datasets.all() if found.name == name), None)
    labels, groups = ([], None) if known is None else (known.classes, ledger.datasets.group_classes(name))
    room = _room(name, ledger, quotas)
    taken, rejected = take_in(sources, store, classes, labels=classes or labels, groups=groups, room=room)
    # Checked before the dataset is made: a folder without images leaves no empty dataset behind.
    if not taken:
        if any(one.code == QuotaExceeded.code for one in rejected):
            raise _refusal_of_all(rejected)
        reason = "".join(f"; {one.filename!r}: {one.detail}" for one in [*rejected, *sources.left_out][:1])
        raise DatasetEmpty(
            f"no image could be read from {str(folder)!r}; "
            f"put PNG, JPEG or WebP files into a folder for each class{reason}"
        )
    ledger.datasets.create(name, classes, None if quotas is None else quotas.check_datasets)
    check = None if quotas is None else quotas.check
    # In chunks, so that other writers get their turn.
    for start in range(0, len(taken), _BATCH):
        ledger.datasets.add(name, taken[start : start + _BATCH], check=check)
    ledger.datasets.add(name, [], [*rejected, *sources.left_out])
    return notes_on_names(sources.called)


def admit(source: RawSource, store: BlobStore, classes: Sequence[str] | None, room: Room | None) -> NewSource:
    """Check one image and store its pixels, without its metadata.

    Raises:
        RequestError: it is refused; the pointer names the field.
    """
    check_source(source, classes)
    if source.content is None:
        raise ImageUndecodable(
            f"{source.filename!r} is unreadable or not base64; send the file's bytes in base64"
        )
    if len(source.content) > LARGEST_FILE:
        raise ImageTooLarge(f"{source.filename!r} has more than {LARGEST_FILE} bytes; scale it down")
    # Only pixels are stored: metadata such as place and owner are removed, and equal images get equal names.
    most_chunks = MAX_CHUNKS if room is None else room.quotas.png_chunks
    with PIXELS.held(source.content):
        pixels = decode_image(source.content, max_pixels=LARGEST_PHOTOGRAPH, max_chunks=most_chunks)
        height, width, _ = pixels.shape
        if min(height, width) < SMALLEST_SIDE:
            few = f"{source.filename!r} has {width} x {height} pixels, too few to show anything"
            raise InvalidRequest(few)
        mask = packed_mask(source, source.content, pixels)
        return _put(source, pack(pixels), (width, height), mask, store, room)


def _put(
    source: RawSource,
    packed: PackedImage,
    size: tuple[int, int],
    mask: PackedImage | None,
    store: BlobStore,
    room: Room | None,
) -> NewSource:
    new = NewSource(
        image=packed.ref, label=source.label, filename=source.filename,
        caption=_composed(source.caption), width=size[0], height=size[1], group=source.group,
        stored=len(packed.data) + (0 if mask is None else len(mask.data)),
        mask=None if mask is None else mask.ref,
        pair=None if source.pair is None else source.pair.model_dump_json(),
        labels=json.dumps(source.labels) if source.labels else None,
    )  # fmt: skip
    if room is not None:
        room.take(new)
    store.put_packed(packed)
    if mask is not None:
        store.put_packed(mask)
    return new


def _composed(caption: str | None) -> str | None:
    # Normalised to one spelling of each letter, because edits are compared word by word.
    return None if caption is None else unicodedata.normalize("NFC", caption)


def _uploaded_mask(upload: SourceUpload) -> bytes | Outline | None:
    if upload.mask_base64 is None:
        return upload.outline
    return _from_base64(upload.mask_base64) or b""


def _from_base64(text: str) -> bytes | None:
    # Python accepts excess padding, and raises a different error for letters beyond ASCII.
    if not text.isascii() or len(text) % 4 or text.endswith("==="):
        return None
    try:
        # Without validation Python drops foreign letters and decodes different bytes than were sent.
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None


def _read_classes(path: Path) -> list[str] | None:
    if not path.is_file():
        return None
    try:
        return TypeAdapter(list[str]).validate_json(path.read_bytes())
    except ValidationError as error:
        raise InvalidRequest(
            f"{str(path)!r} is not a list of class names; write a JSON array of strings"
        ) from error


def packed_mask(source: RawSource, content: bytes, pixels: Pixels) -> PackedImage | None:
    """Return the mask of an image, or None if it has none: what was given with it, else its alpha channel.

    Args:
        source: what was given.
        content: the file of the image.
        pixels: the image as it is stored.

    Raises:
        RequestError: the mask that was given is refused; the pointer names it.
    """
    try:
        if source.mask is None:
            matte = alpha_mask(content)
        elif isinstance(source.mask, Outline):
            outline = source.mask
            matte = outline_mask(outline.polygons, (outline.width, outline.height), content)
        elif source.mask:
            matte = file_mask(source.mask, content)
        else:
            raise ImageUndecodable("the mask is unreadable or not base64; send the file's bytes in base64")
    except RequestError as error:
        field = "outline" if isinstance(source.mask, Outline) else "mask_base64"
        raise type(error)(f"{source.filename!r}: {error.detail}", pointer=f"/{field}") from error
    return None if matte is None else pack(mask_pixels(matte, pixels))
