"""``client.datasets``: labelled pictures to test on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from faultline._calls import Call, idempotency_headers, reading, segment
from faultline._folders import FolderUpload, none_taken, pictures_in
from faultline._sending import AsyncSender, Sender
from faultline_core.contract.datasets import (
    Dataset,
    DatasetCreate,
    DatasetList,
    SourcesAdd,
    SourcesAdded,
    SourceUpload,
)
from faultline_core.errors import RequestError

UPLOAD_TIMEOUT_S = 300.0
"""16 MB at 60 kB/s: a slow line is no reason to give a dataset up."""

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
    return Call(method="GET", path=f"/v1/datasets/{segment(name)}", parse=reading(Dataset))


def add_call(name: str, sources: Sequence[SourceUpload]) -> Call[SourcesAdded]:
    """``POST /v1/datasets/{name}/sources``; content addressed, so sending it twice adds nothing."""
    return Call(
        method="POST",
        path=f"/v1/datasets/{segment(name)}/sources",
        body=SourcesAdd(sources=list(sources)),
        parse=reading(SourcesAdded),
        headers=idempotency_headers(None),
        timeout=UPLOAD_TIMEOUT_S,
    )


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
        """Add labelled pictures; what was rejected is named in the answer.

        Raises:
            RequestError: none of them can be taken; its ``parts`` tell why, one by one.
        """
        return self._sender.send(add_call(name, sources))

    def upload(
        self, folder: str | Path, *, name: str, captions: Mapping[str, str] | None = None
    ) -> SourcesAdded:
        """Make a dataset of an ImageFolder (one folder a class) and add its pictures.

        ``captions`` are taken for the pictures they name (``"plate/1.png"``); the captioner describes the
        others. A file that cannot be read is left out and named in the answer.

        Raises:
            DatasetEmpty: there is no picture below ``folder``.
            InvalidRequest: a caption names no picture.
        """
        upload = FolderUpload(pictures_in(folder, captions))
        # Also when it exists: the same name is the same dataset, and equal pictures are added once.
        self.create(name=name)
        return upload.total([self._taken(name, batch) for batch in upload.batches()])

    def _taken(self, name: str, batch: Sequence[SourceUpload]) -> SourcesAdded:
        try:
            return self.add(name, batch)
        except RequestError as error:
            return none_taken(batch, error)


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
        """Add labelled pictures; as `Datasets.add`."""
        return await self._sender.send(add_call(name, sources))

    async def upload(
        self, folder: str | Path, *, name: str, captions: Mapping[str, str] | None = None
    ) -> SourcesAdded:
        """Make a dataset of an ImageFolder and add its pictures; as `Datasets.upload`."""
        upload = FolderUpload(pictures_in(folder, captions))
        await self.create(name=name)
        return upload.total([await self._taken(name, batch) for batch in upload.batches()])

    async def _taken(self, name: str, batch: Sequence[SourceUpload]) -> SourcesAdded:
        try:
            return await self.add(name, batch)
        except RequestError as error:
            return none_taken(batch, error)
