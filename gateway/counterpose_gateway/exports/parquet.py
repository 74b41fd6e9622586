"""Parquet shards that Hugging Face's datasets reads as images with columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.exports.images import ExportedImage
from counterpose_gateway.exports.inventory import Inventory
from counterpose_gateway.exports.layouts import SHARDS_FOLDER, Layout, parts, write_shards
from counterpose_gateway.exports.records import COLUMNS, SCORES

ROW_GROUP_IMAGES = 100
"""The number of images that the Hub's viewer reads at once, and that are held in memory."""

ROW_GROUP_BYTES = 32 * 2**20

_SCORE = "float64"


def write_parquet(
    folder: Path, images: Iterator[ExportedImage], inventory: Inventory, shard_bytes: int
) -> None:
    """Write ``data/train-*.parquet`` with the schema and features of all records.

    Raises:
        InvalidRequest: pyarrow is not installed.
    """
    arrow = _arrow()
    schema = _schema(arrow, inventory)

    def write(path: Path, shard: Iterator[ExportedImage]) -> None:
        with arrow.parquet.ParquetWriter(path, schema) as writer:
            for group in parts(shard, most_bytes=ROW_GROUP_BYTES, most_images=ROW_GROUP_IMAGES):
                writer.write_table(arrow.Table.from_pylist([_row(image) for image in group], schema))

    write_shards(folder, ".parquet", parts(images, most_bytes=shard_bytes), write)


def _arrow() -> Any:
    # pyarrow is heavy, and only this layout needs it.
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidRequest(
            "the parquet layout needs pyarrow; install the extra 'exports' where the gateway runs"
        ) from error
    return pyarrow


def _row(image: ExportedImage) -> dict[str, object]:
    return {"image": {"bytes": image.png, "path": image.path}} | image.row


def _schema(arrow: Any, inventory: Inventory) -> Any:
    fields = {
        "image": arrow.struct({"bytes": arrow.binary(), "path": arrow.string()}),
        **{name: arrow.type_for_alias(column.dtype) for name, column in COLUMNS.items()},
    }
    if inventory.scores:
        fields[SCORES] = arrow.struct({name: arrow.type_for_alias(_SCORE) for name in inventory.scores})
    return arrow.schema(fields, metadata={"huggingface": json.dumps(_features(inventory))})


def _features(inventory: Inventory) -> dict[str, object]:
    """Hugging Face's features, which mark a struct of bytes and path as an image."""
    features: dict[str, object] = {"image": {"_type": "Image"}}
    features |= {name: _value(column.dtype) for name, column in COLUMNS.items()}
    if inventory.scores:
        features[SCORES] = {name: _value(_SCORE) for name in inventory.scores}
    return {"info": {"features": features}}


def _value(dtype: str) -> dict[str, str]:
    return {"dtype": dtype, "_type": "Value"}


PARQUET = Layout(
    write=write_parquet,
    files=(f"{SHARDS_FOLDER}/*.parquet",),
    reading="""\
import datasets

images = datasets.load_dataset("parquet", data_files="FOLDER/data/*.parquet", split="train")""",
)
