"""``client.datasets``: labelled images to test on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpose._calls import Call, idempotency_headers, reading, reading_nothing, segment
from counterpose._datasets.folders import images_in
from counterpose._datasets.imports import has_ended, pauses
from counterpose._datasets.objects import dataset_object
from counterpose._datasets.pairs import pairs_in
from counterpose._datasets.uploads import Upload, Uploaded, none_taken
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.datasets import (
    Dataset,
    DatasetChange,
    DatasetCreate,
    DatasetList,
    ImportCreate,
    SourcesAdd,
    SourcesAdded,
    SourceUpload,
)
from counterpose_core.contract.field_errors import checked
from counterpose_core.errors import InvalidRequest, PayloadTooLarge, RequestError

Groups = Mapping[str, str] | Sequence[str | int | None]
"""The group of each image: by image of a folder, or by row of a dataset object."""

UPLOAD_TIMEOUT_S = 300.0
"""16 MB at 60 kB/s: a slow connection is no reason to fail an upload."""

PATH = "/v1/datasets"


class AsyncDatasets:
    """``/v1/datasets``."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self, *, name: str, classes: Sequence[str] | None = None, expires_in: float | None = None
    ) -> Dataset:
        """Create an empty dataset; ``classes`` fixes its labels, otherwise the images define them.

        ``expires_in``: seconds after which it is deleted, 60 at least; default: never.
        """
        fields: dict[str, object] = {"name": name, "classes": None if classes is None else list(classes)}
        if expires_in is not None:
            # Only what the caller set: an older gateway does not know it.
            fields["expires_in"] = round(expires_in)
        body = checked(DatasetCreate, fields)
        headers = idempotency_headers(None)
        return await self._sender.send(Call("POST", PATH, reading(Dataset), body=body, headers=headers))

    async def get(self, name: str) -> Dataset:
        """Return one dataset."""
        return await self._sender.send(Call("GET", _path(name), reading(Dataset)))

    async def expire(self, name: str, expires_in: float | None) -> Dataset:
        """Let a dataset be deleted in so many seconds, 60 at least, or never."""
        body = DatasetChange(expires_in=None if expires_in is None else round(expires_in))
        return await self._sender.send(Call("PATCH", _path(name), reading(Dataset), body=body))

    async def delete(self, name: str) -> None:
        """Delete a dataset; its images go within hours, unless a run or another dataset has them.

        Raises:
            DatasetNotReady: it is being imported, or a run about it has not ended.
        """
        # A second one finds nothing, so it is not retried blindly.
        await self._sender.send(Call("DELETE", _path(name), reading_nothing, safe=False))

    async def list(self) -> DatasetList:
        """Return all datasets."""
        return await self._sender.send(Call("GET", PATH, reading(DatasetList)))

    async def add(self, name: str, sources: Sequence[SourceUpload]) -> SourcesAdded:
        """Add labelled images; the result names the rejected ones.

        Raises:
            RequestError: every image was rejected; ``parts`` holds one error per image.
        """
        # Images are addressed by content, so a repeated call adds none.
        call = Call(
            "POST",
            f"{_path(name)}/sources",
            reading(SourcesAdded),
            body=SourcesAdd(sources=list(sources)),
            headers=idempotency_headers(None),
            timeout=UPLOAD_TIMEOUT_S,
        )
        return await self._sender.send(call)

    async def upload(
        self,
        source: Any,
        *,
        name: str,
        captions: Mapping[str, str] | None = None,
        classes: Sequence[str] | None = None,
        groups: Groups | None = None,
        names: Mapping[str, str] | None = None,
    ) -> Uploaded:
        """Create a dataset from a folder or a dataset object, and add its images.

        Images that cannot be read, or lie in no class's folder, are skipped and named in the result.

        Args:
            source: an ImageFolder, which has one subfolder per class; a sequence of (image, label), such as a
                dataset of torchvision; a Hugging Face dataset with an image and a label column; or a tuple
                (images, labels) of arrays. Pass images before any normalisation.
            name: the dataset's name.
            captions: by image of the folder (``"plate/1.png"``); the captioner describes all other images.
            classes: the class names by number; default: the object's own ``classes``, or its label's names.
                The dataset has them in this order, in which a classifier without class names answers.
            groups: which images are not independent, such as frames of one video: names by image of the
                folder, or one for each row of an object, None for an image that stands alone. Default: the
                column ``group`` of the folder's ``metadata.jsonl`` or ``metadata.csv``, or of the object.
            names: class names by subfolder, or by the object's own names; default: the folder's
                ``names.json``. Without a name, a WordNet id such as ``n02690373`` is called as ImageNet-1k
                does ("airliner"). The result's ``names`` tell each.

        Raises:
            DatasetEmpty: there are no images.
            InvalidRequest: a caption or group names an image that does not exist, a group has images of
                several classes, a subfolder is a WordNet id without a name, the classes of an object are no
                list of names, the first row of it is not a labelled image, or the dataset exists with other
                classes.
        """
        upload = _upload_of(source, captions, classes, groups, names)
        # Also if it exists: the same name is the same dataset, and equal images are added once.
        await self.create(name=name, classes=upload.classes)
        return upload.total([await self._taken(name, batch) for batch in upload.batches()])

    async def upload_pairs(
        self, table: str | Path, *, of: str | Path, name: str, names: Mapping[str, str] | None = None
    ) -> Uploaded:
        """Create a dataset of the pairs of a table, which were made elsewhere of the images of a folder.

        A stress test takes it as ``transforms={"pairs": name}``, with the dataset of the folder.

        Args:
            table: a ``.csv`` or lines of JSON, with ``source``, ``counterfactual``, ``change`` and, if there
                are several, ``level`` and ``control``. Paths are below the folder of the table.
            of: the folder of the sources, as `upload` takes it.
            name: the dataset's name.
            names: class names by subfolder, as of `upload`.

        Raises:
            DatasetEmpty: the table has no row.
            InvalidRequest: a line has another form, or names an image that does not exist, lies elsewhere or
                is in another line already; the line is named.
        """
        upload = Upload(pairs_in(table, of, names))
        await self.create(name=name)
        return upload.total([await self._taken(name, batch) for batch in upload.batches()])

    async def import_from(
        self,
        url: str,
        *,
        name: str,
        layout: str | None = None,
        classes: Sequence[str] | None = None,
        split: str | None = None,
        image_column: str | None = None,
        label_column: str | None = None,
        revision: str | None = None,
    ) -> Dataset:
        """Fill a dataset from a URL and return it at once; workers read it, and `wait` waits for them.

        The dataset is made if there is none. The same call again goes on with an import that failed.

        Args:
            url: tar shards (``s3://bucket/shard-{000000..000099}.tar``, a `wids` index that ends in
                ``.json``, or one tar), a folder with a subfolder for each class, or Parquet files such as
                ``hf://datasets/owner/name``. The operator says which addresses are allowed.
            name: the dataset's name.
            layout: ``"webdataset"``, ``"image-folder"`` or ``"parquet"``; default: told by the URL.
            classes: the allowed labels, in the order of the numbers that stand for them; default: those
                that the files name.
            split: the split of Parquet files, such as ``"train"``.
            image_column: the column of the image in Parquet files; default: the one that is an image.
            label_column: the column of the label, or its key in ``.json`` members; default: ``"label"``.
            revision: the revision of a dataset on the Hugging Face hub.

        Raises:
            ImportRefused: the address is not allowed.
            InvalidRequest: the dataset has images already, or is imported from elsewhere.
        """
        given = {
            "url": url,
            "layout": layout,
            "classes": None if classes is None else list(classes),
            "split": split,
            "image_column": image_column,
            "label_column": label_column,
            "revision": revision,
        }
        call = Call(
            "POST",
            f"{_path(name)}/import",
            reading(Dataset),
            body=checked(ImportCreate, given),
            headers=idempotency_headers(None),
        )
        return await self._sender.send(call)

    async def cancel_import(self, name: str) -> Dataset:
        """Stop an import; what was taken in stays, and `import_from` goes on with the rest.

        One that has ended stays as it is.
        """
        return await self._sender.send(Call("POST", f"{_path(name)}/import/cancel", reading(Dataset)))

    async def wait(
        self, name: str, timeout: float | None = None, *, on_look: Callable[[Dataset], None] = lambda _: None
    ) -> Dataset:
        """Return the dataset when its import has ended, or as it is after ``timeout`` seconds.

        ``on_look`` is given the dataset at each look. Whether the import failed, its ``imported`` says.
        """
        for pause in pauses(timeout):
            dataset = await self.get(name)
            on_look(dataset)
            if has_ended(dataset):
                return dataset
            await asyncio.sleep(pause)
        return await self.get(name)

    async def _taken(self, name: str, batch: Sequence[SourceUpload]) -> SourcesAdded:
        try:
            return await self.add(name, batch)
        except PayloadTooLarge:
            # Its images have too many pixels together, or its bytes are beyond the operator's bound.
            half = len(batch) // 2
            if not half:
                raise
            first, second = await self._taken(name, batch[:half]), await self._taken(name, batch[half:])
            return SourcesAdded(added=first.added + second.added, rejected=first.rejected + second.rejected)
        except RequestError as error:
            return none_taken(batch, error)


def _path(name: str) -> str:
    return f"{PATH}/{segment(name)}"


def _upload_of(
    source: Any,
    captions: Mapping[str, str] | None,
    classes: Sequence[str] | None,
    groups: Groups | None,
    names: Mapping[str, str] | None,
) -> Upload:
    if isinstance(source, (str, Path)):
        if classes is not None:
            raise InvalidRequest(
                "classes=[...] is for dataset objects: a folder's classes are its subfolders"
            )
        if groups is not None and not isinstance(groups, Mapping):
            raise InvalidRequest(
                'groups of a folder are by image: pass groups={"plate/1.png": "video-3", ...}'
            )
        images = images_in(source, captions, groups, names)
        called = {image.folder: image.label for image in images if image.folder not in ("", image.label)}
        return Upload(images, called, skipped=list(images.left_out))
    if captions:
        raise InvalidRequest("captions are for folders: a row of a dataset object has no name to look up")
    if isinstance(groups, Mapping):
        raise InvalidRequest("groups of a dataset object are by row: pass a sequence with one for each")
    rows = dataset_object(source, classes, groups, names)
    return Upload(rows, rows.names, rows.dataset_classes)
