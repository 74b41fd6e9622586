"""Folders of labelled images: listing them, and reading captions."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpose._datasets.uploads import LabelledImage
from counterpose_core.contract.datasets import Outline, RejectedSource
from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.folder_masks import folder_masks
from counterpose_core.folder_metadata import further_labels, metadata_notes, read_notes
from counterpose_core.image_folders import LABELS, SUFFIXES, ClassFolders, left_out_loose, read_class_folders
from counterpose_core.text.folder_names import NAMES, folder_classes, read_names


@dataclass(frozen=True)
class ImageFile(LabelledImage):
    """An image of a folder; ``label`` is its class, which may have another name than its subfolder.

    A ``loose`` one lies in no subfolder, and has its class by the folder's metadata.
    """

    label: str
    path: Path
    caption: str | None = None
    group: str | None = None
    mask: Path | Outline | None = None
    loose: bool = False
    labels: tuple[str, ...] = ()

    @property
    def filename(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def name(self) -> str:
        """Its path below the folder, with slashes."""
        return self.filename if self.loose else f"{self.folder}/{self.filename}"

    @property
    def folder(self) -> str:
        """The name of its subfolder; "" without one."""
        return "" if self.loose else self.path.parent.name

    def content(self) -> bytes | None:
        """The file's bytes; None if it cannot be read."""
        try:
            return self.path.read_bytes()
        except OSError:
            return None

    def where(self) -> bytes | Outline | None:
        """The file of its mask or the outline of its object; no bytes if the file cannot be read."""
        if not isinstance(self.mask, Path):
            return self.mask
        try:
            return self.mask.read_bytes()
        except OSError:
            return b""


class ImageFiles(list[ImageFile]):
    """The images of a folder in order; ``left_out`` names what in it is none of them."""

    def __init__(self, images: Iterable[ImageFile], left_out: Sequence[RejectedSource]) -> None:
        super().__init__(images)
        self.left_out = left_out


def images_in(
    folder: str | Path,
    captions: Mapping[str, str] | None = None,
    groups: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
) -> ImageFiles:
    """List the images of an ImageFolder, which has one subfolder per class; hidden ones are passed over.

    An image beside the subfolders has the label that ``labels.csv`` or the metadata give it.

    Args:
        folder: the ImageFolder.
        captions: by image.
        groups: by image; default: the ``group`` column of the folder's own metadata, if any.
        names: class names by subfolder; default: the folder's own ``names.json``, if any. A subfolder without
            one is named by itself or, if it is a WordNet id, by ImageNet-1k.

    Raises:
        DatasetEmpty: ``folder`` holds no images.
        InvalidRequest: a caption, a group or a line of metadata names an image that does not exist; a group
            spans classes; a subfolder is a WordNet id without a name, or the names name no subfolder.
    """
    root = Path(folder)
    listed = read_class_folders(root)
    labels = _labels_of_loose(listed)
    flat = dict.fromkeys(root / name for name in labels)
    loose = [path for path in listed.loose if path not in flat]
    left_out = [*listed.left_out, *left_out_loose(loose, f"move it into one, or label it in {LABELS}")]
    if not listed.images and not labels:
        raise _no_images(folder, loose, left_out)
    notes = metadata_notes(root, ("group", "mask", "labels"))
    if groups is None:
        groups = {name: note["group"] for name, note in notes.items() if "group" in note}
    # A misspelt name would silently leave its image to the captioner, or let it count as independent.
    captions, groups = listed.by_image("caption", captions or {}), listed.by_image("group", groups)
    further = listed.by_image("labels", {name: note for name, note in notes.items() if "labels" in note})
    if names is None and (root / NAMES).is_file():
        names = read_names(root / NAMES)
    classes = folder_classes((path.parent.name for path in listed.images), names)
    labels |= {f"{path.parent.name}/{path.name}": classes[path.parent.name] for path in listed.images}
    images = list(zip([*flat, *listed.images], labels, strict=True))
    column = {name: note["mask"] for name, note in notes.items() if "mask" in note}
    masks = folder_masks(listed, column, labels)
    found = [
        ImageFile(
            labels[name],
            path,
            captions.get(name),
            groups.get(name),
            masks.masks.get(name),
            path in flat,
            further_labels(further.get(name, {})),
        )
        for path, name in images
        if path not in masks.files
    ]
    _require_one_class(found)
    return ImageFiles(found, [*left_out, *masks.left_out])


def _labels_of_loose(listed: ClassFolders) -> dict[str, str]:
    """The labels of the images that lie in no subfolder, by name, in the order of the names."""
    if not listed.loose:
        return {}
    notes = metadata_notes(listed.root, ("label",))
    labels = listed.by_image("label", {name: note["label"] for name, note in notes.items()})
    return {path.name: labels[path.name] for path in listed.loose if path.name in labels}


def _no_images(folder: str | Path, loose: Sequence[Path], left_out: Sequence[RejectedSource]) -> DatasetEmpty:
    if loose:
        return DatasetEmpty(
            f"the {len(loose)} images in {str(folder)!r} have no labels: move each into a subfolder that is "
            f"called as its class, or give each line of {LABELS} beside them a label; begin it with: "
            f"{labels_command(folder)}"
        )
    reason = f"; {left_out[0].filename!r}: {left_out[0].detail}" if left_out else ""
    return DatasetEmpty(
        f"no images in {str(folder)!r}: expected one subfolder per class with PNG, JPEG or WebP files{reason}"
    )


def labels_command(folder: str | Path) -> str:
    """The command that writes a table of a folder's images, whose second column is to be filled in."""
    endings = "|".join(sorted(suffix.removeprefix(".") for suffix in SUFFIXES))
    rows = f"ls | grep -iE '\\.({endings})$' | sed 's/.*/\"&\",/'"
    return f"(cd {shlex.quote(str(folder))} && (echo file_name,label; {rows}) > {LABELS})"


def _require_one_class(images: Iterable[ImageFile]) -> None:
    """Refuse a group whose images are of several classes, before any of them is sent.

    Raises:
        InvalidRequest: a group spans classes; both are named.
    """
    class_of: dict[str, str] = {}
    for image in images:
        if image.group is not None and class_of.setdefault(image.group, image.label) != image.label:
            raise InvalidRequest(
                f"the group {image.group!r} has images of the classes {class_of[image.group]!r} and "
                f"{image.label!r}; give each class groups of its own"
            )


def read_captions(path: Path) -> dict[str, str]:
    """Read captions from JSON lines: ``{"file_name": "plate/1.png", "caption": "..."}``.

    Raises:
        InvalidRequest: the file cannot be read, a line has another form, or two captions of one image differ.
    """
    notes = read_notes(path, ("caption",), required=True)
    return {name: note["caption"] for name, note in notes.items()}


def folder_digest(images: Sequence[ImageFile]) -> str:
    """Return twelve hexadecimal digits that identify the upload: names, contents, captions."""
    digest = hashlib.sha256()
    for image in images:
        # An unreadable file is skipped; once it is repaired, the folder is another dataset.
        content = image.content() or b""
        # Each part has its own digest: simply joined, two different folders could give the same bytes.
        for part in (
            image.name.encode(errors="surrogateescape"),
            (image.caption or "").encode(),
            content,
            # Only where there are any: the name of a folder without groups or names stays the same.
            *((image.group.encode(),) if image.group else ()),
            *((b"class", image.label.encode()) if image.label != image.folder else ()),
            *_mask_parts(image.where()),
            *((b"labels", json.dumps(image.labels).encode()) if image.labels else ()),
        ):
            digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:12]


def _mask_parts(mask: bytes | Outline | None) -> tuple[bytes, ...]:
    if mask is None:
        return ()
    return (b"mask", mask.model_dump_json().encode() if isinstance(mask, Outline) else mask)
