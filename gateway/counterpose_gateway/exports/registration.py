"""Register images that a run made as a dataset, so that other methods take them as any user's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.datasets import Dataset
from counterpose_core.errors import DatasetEmpty
from counterpose_core.images.codecs import decode_image
from counterpose_gateway.exports.records import Record
from counterpose_gateway.images.quota import Quotas
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.sources import NewSource

_BATCH = 500


def register(
    name: str,
    classes: list[str],
    records: Iterable[Record],
    *,
    ledger: Ledger,
    store: BlobStore,
    quotas: Quotas,
) -> Dataset:
    """Make the dataset ``name`` of a run's images; repeating it adds nothing.

    Images of one prompt are a group: they are not independent, and no method divides them. The images stay
    marked as generated, since the store knows that they are.

    Raises:
        DatasetEmpty: the run kept no image.
        InvalidRequest: the dataset exists with other classes.
        QuotaExceeded: there are too many datasets or images.
        ArtifactMissing, ArtifactCorrupt: an image is not in the store any more.
    """
    sources = list(_sources(records, store))
    # Checked before the dataset is made: a run without images leaves no empty dataset behind.
    if not sources:
        raise DatasetEmpty("the run kept no image; there is nothing to register")
    ledger.datasets.create(name, classes, quotas.check_datasets)
    # In chunks, so that other writers get their turn.
    for start in range(0, len(sources), _BATCH):
        ledger.datasets.add(name, sources[start : start + _BATCH], check=quotas.check)
    return ledger.datasets.get(name)


def _sources(records: Iterable[Record], store: BlobStore) -> Iterator[NewSource]:
    for record in records:
        data = store.get(record.image)
        height, width, _ = decode_image(data).shape
        yield NewSource(
            image=record.image,
            label=record.class_name,
            filename=f"{record.class_name}/{record.image[:16]}.png",
            caption=record.prompt,
            width=width,
            height=height,
            group=f"{record.class_name}, {record.shift}",
            stored=len(data),
        )
