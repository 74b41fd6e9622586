"""Parquet files as the Hugging Face library `datasets` writes them: images with bytes, labels and masks."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from types import ModuleType
from typing import IO, Any

from counterpose_core.contract.datasets import ImportCreate, RejectedSource
from counterpose_core.errors import (
    ImageUndecodable,
    ImportRefused,
    InvalidRequest,
    RequestError,
    ShardUnreadable,
)
from counterpose_gateway.images.folder import RawSource
from counterpose_gateway.imports.storage import Sample, Storage, class_of, refused
from counterpose_gateway.imports.tar_shards import expanded
from counterpose_gateway.records.imports import NewShard

MOST_INFLATED, MOST_RATIO = 64 << 20, 100
"""Images of a group of rows that are more bytes than the first are not compressed further than the second."""
MOST_FOOTER = 2 << 20
"""Bytes of what a file says of its groups of rows; Arrow takes 230 times as many for the shortest of them."""
BUFFER = 1 << 20
_END = 8
"""Bytes of the length of a footer, and of the mark behind it."""
_MASK = "mask"
"""The column of masks, if a file has one."""
_MOST_FILES = 100_000
_DEPTH = 4


def find_shards(url: str, request: ImportCreate, storage: Storage, listed: int) -> Iterator[NewShard]:
    """Yield the Parquet files, those of the split alone if one is named, from the ``listed``-th on.

    Raises:
        InvalidRequest: no file is of the split, or files of several splits are there and none is named.
        ShardUnreadable: the folder is missing.
    """
    paths = expanded(url) if url.endswith(".parquet") else _of_split(url, request.split, storage)
    for path in islice(paths, listed, None):
        yield NewShard(path=path, mark=path)


def class_names(path: str, request: ImportCreate, storage: Storage) -> Sequence[str] | None:
    """Return the names of the label's numbers in a file, or None if it has none.

    Raises:
        InvalidRequest: it has no column of images or of labels.
    """
    with storage.open(path) as opened:
        file = _parquet_file(opened, path)
        _, label = _columns(file, path, request)
        return _feature_names(_features(file).get(label))


def read_parquet(
    opened: IO[bytes], start: int, path: str, names: Sequence[str] | None, request: ImportCreate
) -> Iterator[Sample]:
    """Yield the images of a file from the row ``start`` on.

    Raises:
        InvalidRequest: it has no column of images or of labels.
        ShardUnreadable: it is no Parquet file.
    """
    file = _parquet_file(opened, path)
    image, label = _columns(file, path, request)
    own = _feature_names(_features(file).get(label))
    # The caller's names may be others, but not the same in another order: the numbers are the file's.
    if own is None or (request.classes and names is not None and set(own) != set(names)):
        own = names
    stem = path.rpartition("/")[2]
    groups, row = _groups_from(file, start)
    columns = [image, label, *({_MASK} & set(file.schema_arrow.names) - {image, label})]
    _require_images(file, path, groups, image)
    for batch in _batches(file, path, groups, columns):
        for cells in zip(*map(batch.column, columns), strict=True):
            if row >= start:
                yield Sample(_source(f"{stem}/{row}", own, cells), row + 1)
            row += 1


def _require_images(file: Any, path: str, groups: list[int], image: str) -> None:
    """Refuse images that inflate to many times their size: their pages are inflated whole."""
    for group in map(file.metadata.row_group, groups):
        columns = [group.column(number) for number in range(group.num_columns)]
        for column in (each for each in columns if each.path_in_schema.partition(".")[0] == image):
            inflated = column.total_uncompressed_size
            if inflated > MOST_INFLATED and inflated > MOST_RATIO * column.total_compressed_size:
                raise ShardUnreadable(
                    f"the images of the shard {path!r} inflate from {column.total_compressed_size} to "
                    f"{inflated} bytes; write PNG, JPEG or WebP files, which do not"
                )


def _batches(file: Any, path: str, groups: list[int], columns: list[str]) -> Iterator[Any]:
    arrow, _ = _arrow(path)
    try:
        # One row at a time: in a file of 2 kB, 64 rows may share one value of 20 MB, and each is a copy.
        yield from file.iter_batches(batch_size=1, row_groups=groups, columns=columns)
    except (arrow.ArrowInvalid, OSError) as error:
        _require_of_arrow(error)
        raise ShardUnreadable(f"the shard {path!r} is damaged: {error}") from error


def _source(filename: str, names: Sequence[str] | None, cells: Sequence[Any]) -> RawSource | RejectedSource:
    try:
        cell, label, mask = (*map(_value, cells), None)[:3]
        content, inside = _bytes(cell), _bytes(mask)
        # Only a path: the image is on the machine that wrote the file.
        if content is None:
            raise ImageUndecodable(f"{filename!r} holds no bytes of an image; embed the images in the file")
        if inside is None and isinstance(mask, dict | str):
            raise ImageUndecodable(f"{filename!r} holds no bytes of its mask; embed the masks in the file")
        return RawSource(
            filename=filename, label=class_of(label, names), caption=None, content=content, mask=inside
        )
    except RequestError as error:
        return refused(filename, error)


def _value(cell: Any) -> Any:
    try:
        return cell.as_py()
    # Letters that are no UTF-8, a day of the year three million: of some values Python has none.
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(f"the row has a value of the type {cell.type} that cannot be read") from error


def _bytes(cell: Any) -> bytes | None:
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    return content if isinstance(content, bytes) else None


def _groups_from(file: Any, start: int) -> tuple[list[int], int]:
    """Return the row groups from the one on that holds the row ``start``, and the first row of it."""
    first = 0
    for number in range(file.num_row_groups):
        size = file.metadata.row_group(number).num_rows
        if first + size > start:
            return list(range(number, file.num_row_groups)), first
        first += size
    return [], first


def _parquet_file(opened: IO[bytes], path: str) -> Any:
    arrow, parquet = _arrow(path)
    _require_short_footer(opened, path)
    try:
        # By pages: a row group of photographs may have a gigabyte.
        return parquet.ParquetFile(opened, buffer_size=BUFFER, pre_buffer=False)
    except (arrow.ArrowInvalid, OSError) as error:
        _require_of_arrow(error)
        raise ShardUnreadable(f"the shard {path!r} is no Parquet file: {error}") from error


def _require_short_footer(opened: IO[bytes], path: str) -> None:
    """Refuse a file that says more of its rows than is read: Arrow reads all of it, and at once."""
    end = opened.seek(0, io.SEEK_END)
    opened.seek(max(end - _END, 0))
    length = int.from_bytes(opened.read(_END)[:4], "little")
    opened.seek(0)
    if MOST_FOOTER < length <= end:
        raise ShardUnreadable(
            f"the shard {path!r} has {length} bytes about its groups of rows, more than {MOST_FOOTER}; write "
            "larger groups"
        )


def _require_of_arrow(error: Exception) -> None:
    """Raise what storage raised: of a damaged footer or page, Arrow's OSError has no number."""
    if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
        raise error


def _arrow(path: str) -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportRefused(
            f"{path!r}: this worker cannot read Parquet; install the extra 'exports' where it runs",
            pointer="/url",
        ) from error
    return pyarrow, pyarrow.parquet


def _columns(file: Any, path: str, request: ImportCreate) -> tuple[str, str]:
    schema, features = file.schema_arrow, _features(file)
    there = list(schema.names)
    images = [name for name in there if features.get(name, {}).get("_type") == "Image"]
    image = request.image_column or next(iter(images), "image")
    label = request.label_column or "label"
    for column, field in ((image, "image_column"), (label, "label_column")):
        if column not in there:
            raise InvalidRequest(
                f"{path!r} has no column {column!r}; its columns are {', '.join(map(repr, there))}",
                pointer=f"/{field}",
            )
    for column in (image, label, _MASK):
        if there.count(column) > 1:
            raise InvalidRequest(f"{path!r} has {there.count(column)} columns {column!r}; rename all but one")
    return image, label


def _features(file: Any) -> dict[str, Any]:
    """Return what `datasets` noted of each column."""
    noted = (file.schema_arrow.metadata or {}).get(b"huggingface")
    try:
        features = dict(json.loads(noted)["info"]["features"] if noted else {})
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {name: told for name, told in features.items() if isinstance(told, dict)}


def _feature_names(feature: dict[str, Any] | None) -> Sequence[str] | None:
    names = None if feature is None or feature.get("_type") != "ClassLabel" else feature.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return names


def _of_split(url: str, split: str | None, storage: Storage) -> list[str]:
    found = _parquet_below(url.rstrip("/"), storage, _DEPTH)
    splits = {path: _split_name(path, url) for path in found}
    if split is None and len(set(splits.values())) > 1:
        told = ", ".join(sorted(set(splits.values())))
        raise InvalidRequest(f"{url!r} has the splits {told}; name one", pointer="/split")
    wanted = [path for path in found if split is None or splits[path] == split]
    if not wanted:
        there = ", ".join(sorted(set(splits.values()))) or "none"
        raise InvalidRequest(
            f"{url!r} has no Parquet file of the split {split!r}; it has {there}", pointer="/split"
        )
    return wanted


def _parquet_below(url: str, storage: Storage, depth: int) -> list[str]:
    folders, files = storage.folder(url)
    found = [f"{url}/{name}" for name in files if name.endswith(".parquet")]
    if depth:
        found += [
            path for folder in folders for path in _parquet_below(f"{url}/{folder}", storage, depth - 1)
        ]
    if len(found) > _MOST_FILES:
        raise InvalidRequest(f"{url!r} holds more than {_MOST_FILES} Parquet files", pointer="/url")
    return found


def _split_name(path: str, url: str) -> str:
    # "data/train-00000-of-00002.parquet" or "train/0000.parquet".
    stem = path.rpartition("/")[2].removesuffix(".parquet")
    name = stem.partition("-")[0]
    folder = path[len(url.rstrip("/")) + 1 :].rpartition("/")[0].rpartition("/")[2]
    return folder if name.isdigit() and folder else name
