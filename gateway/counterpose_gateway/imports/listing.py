"""Finding the shards of an import, and reading one, by layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpose_core.errors import QuotaExceeded
from counterpose_gateway.imports import image_folder, parquet_files, webdataset
from counterpose_gateway.imports.addresses import with_revision
from counterpose_gateway.imports.samples import Sample
from counterpose_gateway.imports.storage import Storage, reading
from counterpose_gateway.imports.tar_shards import read_tar
from counterpose_gateway.records.imports import LeasedListing, LeasedShard, NewShard


def find_shards(leased: LeasedListing, storage: Storage, most: int) -> Iterator[NewShard]:
    """Yield the shards of an import that are not stored yet.

    Raises:
        RequestError: the address is refused, or holds no such layout.
        QuotaExceeded: they are more than ``most``.
    """
    for number, shard in enumerate(_found(leased, storage), start=leased.listed + 1):
        if number > most:
            raise QuotaExceeded(
                f"{leased.request.url!r} has more than {most} shards (COUNTERPOSE_MAX_IMPORT_SHARDS); write "
                "larger ones"
            )
        yield shard


def named_classes(leased: LeasedListing, first: NewShard, storage: Storage) -> Sequence[str] | None:
    """Return the class names that the files themselves give, or None."""
    if leased.layout == "webdataset":
        return webdataset.class_names(_url(leased), storage)
    if leased.layout == "parquet":
        with reading(first.path):
            return parquet_files.class_names(first.path, leased.request, storage)
    return None


def read_shard(leased: LeasedShard, storage: Storage) -> Iterator[Sample]:
    """Yield the samples of a shard from its position on.

    Raises:
        RequestError: it is not of its layout.
        ShardUnreadable: it cannot be read.
    """
    if leased.files is not None:
        assert leased.label is not None  # each part of a folder is of one class
        yield from image_folder.read_files(leased.path, leased.files, leased.label, storage, leased.position)
        return
    request, names = leased.request, leased.names
    with reading(leased.path), storage.open(leased.path) as opened:
        if leased.layout == "parquet":
            yield from parquet_files.read_parquet(opened, leased.position, leased.path, names, request)
        else:
            label_key = request.label_column or "label"
            yield from read_tar(opened, leased.position, leased.path, names, label_key)


def _url(leased: LeasedListing) -> str:
    return with_revision(leased.request.url, leased.request.revision)


def _found(leased: LeasedListing, storage: Storage) -> Iterator[NewShard]:
    url = _url(leased)
    if leased.layout == "webdataset":
        return webdataset.find_shards(url, storage, leased.listed)
    if leased.layout == "parquet":
        return parquet_files.find_shards(url, leased.request, storage, leased.listed)
    return image_folder.find_shards(url, storage, leased.mark, leased.request.classes)
