"""FiftyOne's own dataset folder, which ``fiftyone.types.FiftyOneDataset`` reads.

A counterfactual and its source image are the two slices of a group. FiftyOne migrates a folder of an older
version when it reads it, so this one says the oldest version whose fields it has.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from counterpose_gateway.exports.images import ExportedImage, ExportedSource
from counterpose_gateway.exports.inventory import Inventory
from counterpose_gateway.exports.layouts import Layout, write_image
from counterpose_gateway.exports.records import CHANGE_FIELDS, COLUMNS, SCORES, Answer

VERSION = "1.0.0"
METADATA, SAMPLES, DATA = "metadata.json", "samples.json", "data"
GROUP, COUNTERFACTUAL, SOURCE = "group", "counterfactual", "source"
_FIELDS = "fiftyone.core.fields"
_TYPES = {"string": "StringField", "int64": "IntField", "bool": "BooleanField", "float64": "FloatField"}
_CLASSIFICATION = "fiftyone.core.labels.Classification"
_NOT_OF_A_FIELD = re.compile(r"[^0-9a-z]+")


def write_fiftyone(folder: Path, images: Iterator[ExportedImage], inventory: Inventory, _: int) -> None:
    """Write images below ``data``, samples in ``samples.json``, and their fields in ``metadata.json``."""
    answers = field_names("answer", inventory.classifiers)
    scores = field_names("score", inventory.scores)
    with (folder / SAMPLES).open("w", encoding="utf-8") as samples:
        samples.write('{"samples": [')
        separator = "\n"
        for image in images:
            write_image(folder / DATA, image)
            for sample in _samples_of(image, inventory.paired, answers, scores):
                samples.write(separator + json.dumps(sample, ensure_ascii=False, allow_nan=False))
                separator = ",\n"
        samples.write("\n]}\n")
    dataset = _dataset(inventory, answers, scores)
    (folder / METADATA).write_text(json.dumps(dataset, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def field_names(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """Map names to fields in the letters that FiftyOne takes, distinct and the same for equal names."""
    found: dict[str, str] = {}
    for name in names:
        plain = f"{prefix}_{_NOT_OF_A_FIELD.sub('_', name.lower()).strip('_')}"
        taken = plain in found.values()
        found[name] = f"{plain}_{hashlib.sha256(name.encode()).hexdigest()[:8]}" if taken else plain
    return found


def _samples_of(
    image: ExportedImage, paired: bool, answers: Mapping[str, str], scores: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the sample of an image, and of its source image the one in the same group."""
    row = {name: image.row[name] for name in COLUMNS}
    found: Any = image.row.get(SCORES) or {}
    row |= {scores[name]: value for name, value in found.items()}
    source = image.source
    if source is not None:
        told = source.told
        row |= {name: getattr(told, name) for name in CHANGE_FIELDS}
        sample = _sample(image.path, SOURCE, image.path, source.row, told.answers, answers, source=source)
        yield sample | {"caption": told.caption}
    slice_of = COUNTERFACTUAL if paired else None
    yield _sample(image.path, slice_of, image.path, row, image.answers, answers)


def _sample(
    path: str,
    slice_of: str | None,
    group: str,
    row: Mapping[str, Any],
    given: Mapping[str, Answer],
    answers: Mapping[str, str],
    *,
    source: ExportedSource | None = None,
) -> dict[str, Any]:
    key = f"{slice_of} {path}"
    sample: dict[str, Any] = {
        "_id": _object_id(key),
        "filepath": f"{DATA}/{path if source is None else source.path}",
        "tags": [str(row["origin"]), str(row["verdict"])],
        "_media_type": "image",
        # FiftyOne shuffles by it.
        "_rand": int.from_bytes(hashlib.sha256(key.encode()).digest()[:6]) / 2**48,
        "ground_truth": _classification(f"{key} truth", str(row["class_name"])),
    }
    if slice_of is not None:
        sample[GROUP] = {"_id": _object_id(f"group {group}"), "_cls": "Group", "name": slice_of}
    for name, answer in given.items():
        sample[answers[name]] = _classification(f"{key} {name}", answer.label, answer.probability)
    return sample | dict(row)


def _classification(key: str, label: str, confidence: float | None = None) -> dict[str, Any]:
    told = {"_id": _object_id(key), "_cls": "Classification", "tags": [], "label": label}
    return told if confidence is None else told | {"confidence": confidence}


def _object_id(key: str) -> dict[str, str]:
    return {"$oid": hashlib.sha256(key.encode()).hexdigest()[:24]}


def _dataset(inventory: Inventory, answers: Mapping[str, str], scores: Mapping[str, str]) -> dict[str, Any]:
    """Return the document of the dataset; FiftyOne fills in ids, dates and collections itself."""
    classes = sorted(inventory.labels)
    grouped = {
        "group_field": GROUP,
        "group_media_types": {SOURCE: "image", COUNTERFACTUAL: "image"},
        "default_group_slice": COUNTERFACTUAL,
    }
    return {
        "version": VERSION,
        "media_type": "group" if inventory.paired else "image",
        **(grouped if inventory.paired else {}),
        "tags": ["synthetic", "counterpose"],
        "info": {"classifiers": {field: name for name, field in answers.items()}},
        "default_classes": classes,
        "sample_fields": [*_standard_fields(inventory.paired), *_own_fields(inventory, answers, scores)],
    }


def _standard_fields(paired: bool) -> Iterator[dict[str, Any]]:
    yield _field("id", "ObjectIdField", db_field="_id")
    yield _field("filepath", "StringField")
    yield _field("tags", "ListField", subfield="StringField")
    yield _field("metadata", "EmbeddedDocumentField", document="fiftyone.core.metadata.Metadata")
    yield _field("created_at", "DateTimeField", read_only=True)
    yield _field("last_modified_at", "DateTimeField", read_only=True)
    yield _field("_media_type", "StringField")
    yield _field("_rand", "FloatField")
    yield _field("_dataset_id", "ObjectIdField")
    if paired:
        fields = [_field("id", "ObjectIdField", db_field="_id"), _field("name", "StringField")]
        yield _field(GROUP, "EmbeddedDocumentField", document="fiftyone.core.groups.Group", fields=fields)


def _own_fields(
    inventory: Inventory, answers: Mapping[str, str], scores: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    yield _label_field("ground_truth", "the class that the image should show")
    for name, field in answers.items():
        yield _label_field(field, f"the answer of {name}, with its probability")
    for name, column in COLUMNS.items():
        yield _field(name, _TYPES[column.dtype], meaning=column.meaning)
    if inventory.paired:
        for name, meaning in CHANGE_FIELDS.items():
            yield _field(name, "StringField", meaning=meaning)
    for name, field in scores.items():
        yield _field(field, "FloatField", meaning=name)


def _label_field(name: str, meaning: str) -> dict[str, Any]:
    fields = [
        _field("id", "ObjectIdField", db_field="_id"),
        _field("tags", "ListField", subfield="StringField"),
        _field("label", "StringField"),
        _field("confidence", "FloatField"),
        _field("logits", "VectorField"),
    ]
    document = _CLASSIFICATION
    return _field(name, "EmbeddedDocumentField", meaning=meaning, document=document, fields=fields)


def _field(
    name: str,
    ftype: str,
    *,
    meaning: str | None = None,
    document: str | None = None,
    subfield: str | None = None,
    fields: list[dict[str, Any]] | None = None,
    db_field: str | None = None,
    read_only: bool = False,
) -> dict[str, Any]:
    return {
        "name": name,
        "ftype": f"{_FIELDS}.{ftype}",
        "embedded_doc_type": document,
        "subfield": None if subfield is None else f"{_FIELDS}.{subfield}",
        "fields": fields or [],
        "db_field": db_field or name,
        "description": meaning,
        "info": None,
        "read_only": read_only,
    }


FIFTYONE = Layout(
    write=write_fiftyone,
    files=(f"{DATA}/*/*/*.png",),
    reading="""\
import fiftyone

images = fiftyone.Dataset.from_dir("FOLDER", dataset_type=fiftyone.types.FiftyOneDataset)""",
)
