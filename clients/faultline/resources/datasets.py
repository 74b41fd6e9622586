"""``client.datasets``: labelled pictures to test on."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

from faultline._calls import Call, idempotency_headers, reading
from faultline._sending import AsyncSender, Sender
from faultline_core.contract.datasets import (
    Dataset,
    DatasetCreate,
    DatasetList,
    SourcesAdd,
    SourcesAdded,
    SourceUpload,
)
from faultline_core.errors import DatasetEmpty

PICTURE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
UPLOAD_BATCH = 32
UPLOAD_BYTES = 16_000_000

LIST: Call[DatasetList] = Call(method="GET", path="/v1/datasets", parse=reading(DatasetList))


def create_call(name: str, classes: Sequence[str] | None) -> Call[Dataset]:
    """``POST /v1/datasets``."""
    body = DatasetCreate(name=name, classes=None if classes is None else list(classes))
    return Call(
        method="POST",
        path="/v1/datasets",
        body=body,
        parse=reading(Dataset),
        headers=idempotency_headers(None),
    )


def get_call(name: str) -> Call[Dataset]:
    """``GET /v1/datasets/{name}``."""
    return Call(method="GET", path=f"/v1/datasets/{name}", parse=reading(Dataset))


def add_call(name: str, sources: Sequence[SourceUpload]) -> Call[SourcesAdded]:
    """``POST /v1/datasets/{name}/sources``; content addressed, so sending it twice adds nothing."""
    return Call(
        method="POST",
        path=f"/v1/datasets/{name}/sources",
        body=SourcesAdd(sources=list(sources)),
        parse=reading(SourcesAdded),
        headers=idempotency_headers(None),
        timeout=300.0,
    )


def picture_files(folder: str | Path) -> list[tuple[str, Path]]:
    """Labels and files of an ImageFolder: one folder a class.

    Raises:
        DatasetEmpty: there is no picture below ``folder``.
    """
    root = Path(folder)
    files = [
        (path.parent.name, path)
        for path in sorted(root.glob("*/*"))
        if path.suffix.lower() in PICTURE_SUFFIXES and path.is_file()
    ]
    if not files:
        raise DatasetEmpty(
            f"no picture in {str(folder)!r}: expected one folder a class with PNG, JPEG or WebP files"
        )
    return files


def upload_batches(files: Sequence[tuple[str, Path]]) -> Iterator[list[SourceUpload]]:
    """Cut files into uploads of at most 32 pictures and about 16 MB."""
    batch: list[SourceUpload] = []
    size = 0
    for label, path in files:
        content = base64.b64encode(path.read_bytes()).decode("ascii")
        if batch and (len(batch) >= UPLOAD_BATCH or size + len(content) > UPLOAD_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(
            SourceUpload.model_construct(
                filename=path.name, label=label, content_base64=content, caption=None
            )
        )
        size += len(content)
    if batch:
        yield batch


class Datasets:
    """``/v1/datasets``."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(self, *, name: str, classes: Sequence[str] | None = None) -> Dataset:
        """Make an empty dataset; ``classes`` fixes the label set, else it is what the sources carry."""
        return self._sender.send(create_call(name, classes))

    def get(self, name: str) -> Dataset:
        """Describe one dataset."""
        return self._sender.send(get_call(name))

    def list(self) -> DatasetList:
        """Name the datasets."""
        return self._sender.send(LIST)

    def add(self, name: str, sources: Sequence[SourceUpload]) -> SourcesAdded:
        """Add labelled pictures; what was rejected is named in the answer."""
        return self._sender.send(add_call(name, sources))

    def upload(self, folder: str | Path, *, name: str) -> SourcesAdded:
        """Make a dataset of an ImageFolder (one folder a class) and add its pictures.

        Raises:
            DatasetEmpty: there is no picture below ``folder``.
        """
        files = picture_files(folder)
        self.create(name=name)
        answers = [self.add(name, batch) for batch in upload_batches(files)]
        return SourcesAdded(
            added=sum(answer.added for answer in answers),
            rejected=[r for answer in answers for r in answer.rejected],
        )


class AsyncDatasets:
    """``/v1/datasets``."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(self, *, name: str, classes: Sequence[str] | None = None) -> Dataset:
        """Make an empty dataset; ``classes`` fixes the label set, else it is what the sources carry."""
        return await self._sender.send(create_call(name, classes))

    async def get(self, name: str) -> Dataset:
        """Describe one dataset."""
        return await self._sender.send(get_call(name))

    async def list(self) -> DatasetList:
        """Name the datasets."""
        return await self._sender.send(LIST)

    async def add(self, name: str, sources: Sequence[SourceUpload]) -> SourcesAdded:
        """Add labelled pictures; what was rejected is named in the answer."""
        return await self._sender.send(add_call(name, sources))

    async def upload(self, folder: str | Path, *, name: str) -> SourcesAdded:
        """Make a dataset of an ImageFolder (one folder a class) and add its pictures."""
        files = picture_files(folder)
        await self.create(name=name)
        answers = [await self.add(name, batch) for batch in upload_batches(files)]
        return SourcesAdded(
            added=sum(answer.added for answer in answers),
            rejected=[r for answer in answers for r in answer.rejected],
        )
