"""Bodies of ``/v1/datasets``: labelled images that a user uploads."""

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from counterpose_core.contract.base import DISTINCT, ClientBody, ListBody, Problem, ResponseBody
from counterpose_core.contract.tokens import ClassName
from counterpose_core.text_form import TextForm
from counterpose_core.types import BlobRef, PortableName

Layout = Literal["webdataset", "image-folder", "parquet"]
"""How an imported dataset is laid out: tar shards, a folder for each class, or Parquet files."""

ImportState = Literal["listing", "importing", "done", "failed"]


LONGEST_SECONDS = 10 * 365 * 86_400


LONGEST_OUTLINE = 20_000
"""Numbers of a polygon."""


class Outline(ClientBody):
    """Polygons around an object, in pixels of the image that they were drawn on."""

    width: int = Field(ge=1, le=1_000_000)
    """Width of the image in pixels."""
    height: int = Field(ge=1, le=1_000_000)
    """Height of the image in pixels."""
    polygons: list[Annotated[list[FiniteFloat], Field(min_length=6, max_length=LONGEST_OUTLINE)]] = Field(
        min_length=1, max_length=1000
    )
    """Their corners: x, y, x, y ..., from the upper left."""


HIGHEST_LEVEL = 1000
LONGEST_REASON = 200


class Pairing(ClientBody):
    """What an image of a pair that was made elsewhere was made of."""

    source: str = Field(min_length=1, max_length=255)
    """File name of the image that it was made of; of the same class, in the dataset that is tested."""
    change: str | None = Field(default=None, min_length=1, max_length=80)
    """What was changed, in words; null for the control: made in the same way, with nothing changed."""
    level: int = Field(default=1, ge=1, le=HIGHEST_LEVEL)
    """How much of it, from 1 for the slightest."""
    not_made: str | None = Field(
        default=None, min_length=1, max_length=LONGEST_REASON, exclude_if=lambda why: why is None
    )
    """Why no image was made, in words: then the image is the source itself, and only counted. Null of one
    that was made."""


class SourceUpload(ClientBody):
    """One labelled image to add to a dataset."""

    filename: str = Field(min_length=1, max_length=255)
    """Name of the file; exports and reports show it."""
    label: str = Field(min_length=1, max_length=200)
    """Class of the image."""
    # 22.5 MB of image: base64 takes four characters for three bytes. An empty one is rejected as an image is.
    content_base64: str = Field(max_length=30_000_000)
    """Bytes of a PNG, JPEG or WebP file in base64."""
    caption: str | None = Field(default=None, max_length=2000, json_schema_extra={"minLength": 1})
    """Caption to use in place of the captioner's, or null to let the captioner write one."""
    group: str | None = Field(default=None, min_length=1, max_length=200)
    """Name that images share which are not independent, such as frames of one video; null for an image that
    stands alone. All images of a group are of one class."""
    mask_base64: str | None = Field(default=None, max_length=24_000_000)
    """Bytes of a PNG, JPEG or WebP file in base64, as large as the image and light where its object is; greys
    of a PNG are a soft edge. Null for the image's alpha channel, if it has one that is not the same
    everywhere."""
    outline: Outline | None = None
    """Polygons around the object in the place of a mask, or null for none."""
    labels: list[ClassName] = Field(
        default=[], max_length=1000, exclude_if=lambda labels: not labels, json_schema_extra=DISTINCT
    )
    """Further labels of the image, for tasks that know several: for a classification as right as `label`."""
    pair: Pairing | None = None
    """What the image was made of, of a dataset of pairs; null for an image of its own."""


class DatasetCreate(ClientBody):
    """``POST /v1/datasets``: an empty dataset, to which images are added later."""

    name: PortableName
    """Name of the dataset, unique among those of your tenant; not one that Windows reserves, such as CON."""
    classes: list[str] | None = Field(
        default=None,
        max_length=10_000,
        # Only said: an empty list or an empty caption is refused by rules that name the image or the class.
        json_schema_extra=DISTINCT | {"minItems": 1},
    )
    """The allowed labels, or null to take the classes from the labels."""
    expires_in: int | None = Field(default=None, ge=60, le=LONGEST_SECONDS)
    """Seconds after which the dataset is deleted, or null for never; of one that exists already, null changes
    nothing."""


class DatasetChange(ClientBody):
    """``PATCH /v1/datasets/{name}``: when a dataset ends."""

    expires_in: int | None = Field(ge=60, le=LONGEST_SECONDS)
    """Seconds from now after which the dataset is deleted, or null for never."""


class SourcesAdd(ClientBody):
    """``POST /v1/datasets/{name}/sources``: labelled images to add to a dataset."""

    sources: list[SourceUpload] = Field(min_length=1, max_length=64)
    """The labelled images to add."""


class RejectedSource(ResponseBody):
    """A file that was rejected."""

    filename: str
    """Name of the rejected file."""
    code: str
    """Error code from the closed list."""
    detail: str
    """Why the file was rejected."""
    pointer: str | None = None
    """JSON pointer to the image in the request that sent it, or null if there was no such request."""


class SourcesAdded(ResponseBody):
    """Answer to `SourcesAdd`."""

    added: int
    """Number of images that were added."""
    rejected: list[RejectedSource] = []
    """The files that were rejected, with the reason."""


class Source(ResponseBody):
    """A labelled image of a dataset."""

    id: str
    """Digest of the image's content and label."""
    image: BlobRef
    """SHA-256 of the image in the store."""
    label: str
    """Class of the image."""
    filename: str
    """Name of the file it was uploaded as."""
    caption: str | None = None
    """Caption that was uploaded with it, or null if there was none."""
    group: str | None = None
    """Group of images that are not independent, such as frames of one video, or null if the image stands
    alone."""
    width: int
    """Width in pixels."""
    height: int
    """Height in pixels."""
    mask: BlobRef | None = Field(default=None, exclude_if=lambda mask: mask is None)
    """SHA-256 of the mask in the store, light where the object is; absent if there is none."""
    labels: list[str] = Field(default=[], exclude_if=lambda labels: not labels)
    """Further labels of the image; absent if it has none."""
    pair: Pairing | None = Field(default=None, exclude_if=lambda pair: pair is None)
    """What it was made of, of a dataset of pairs; absent for an image of its own."""


class ImportCreate(ClientBody):
    """``POST /v1/datasets/{name}/import``: fill a dataset from a URL."""

    url: str = Field(min_length=1, max_length=2000)
    """Where the images are: tar shards (`s3://bucket/shard-{000000..000099}.tar`, or the `.json` index of
    `wids`), a folder with a subfolder for each class, or Parquet files, such as `hf://datasets/org/name`. The
    operator says which addresses are allowed."""
    layout: Layout | None = None
    """How the images are laid out, or null to tell it from the URL."""
    classes: list[str] | None = Field(
        default=None, max_length=10_000, json_schema_extra=DISTINCT | {"minItems": 1}
    )
    """The allowed labels, in the order of the numbers that stand for them; null to take them from
    `classes.json` or `classes.txt` beside the shards, the Parquet file, or the labels."""
    split: str | None = Field(default=None, min_length=1, max_length=100)
    """Split of Parquet files whose names say which they belong to, such as `train`."""
    image_column: str | None = Field(default=None, min_length=1, max_length=200)
    """Column of the image in Parquet files; null for the one that is an image."""
    label_column: str | None = Field(default=None, min_length=1, max_length=200)
    """Column of the label in Parquet files, or its key in the `.json` members of a tar; null for `label`."""
    revision: (
        Annotated[
            str,
            Field(min_length=1, max_length=200, pattern=r"^[\w./-]+$"),
            TextForm("must be a branch, a tag or a commit: letters, digits, dots, dashes and slashes"),
        ]
        | None
    ) = None
    """Branch, tag or commit of a dataset on the Hugging Face hub; null for the newest."""


class FailedShard(ResponseBody):
    """A shard that could not be read to its end."""

    shard: str
    """Address of the shard."""
    code: str
    """Error code from the closed list."""
    detail: str
    """What happened to the shard, and what to do."""


class DatasetImport(ResponseBody):
    """How a dataset is imported from a URL, and how far that has come."""

    url: str
    """Where the images come from."""
    layout: Layout
    """How they are laid out there."""
    state: ImportState
    """`listing` while shards are still found, `importing`, `done`, or `failed`: what was taken in until then
    is kept, and the same request goes on with the rest."""
    shards: int
    """Number of shards that were found so far."""
    shards_done: int
    """Number of shards that were read to their end."""
    shards_failed: int
    """Number of shards that could not be read."""
    images: int
    """Number of images that were taken in."""
    n_rejected: int
    """Number of files that were rejected."""
    rejected: list[RejectedSource] = []
    """The first of the rejected files, with the reason."""
    failed_shards: list[FailedShard] = []
    """The first of the shards that could not be read."""
    problem: Problem | None = None
    """Why the import failed, or null if it has not."""

    @property
    def has_ended(self) -> bool:
        """Whether no worker goes on with it."""
        return self.state in ("done", "failed")


class Dataset(ResponseBody):
    """A dataset and its contents."""

    name: str
    """Name of the dataset."""
    classes: list[str]
    """The classes of the dataset."""
    n_sources: int
    """Number of labelled images."""
    digest: str
    """Digest over all images, labels, groups, masks and pairs; it changes whenever the dataset does. Empty
    while the dataset is imported."""
    created_at: dt.datetime
    """When the dataset was created, in UTC."""
    expires_at: dt.datetime | None = None
    """When it is deleted, in UTC, or null for never."""
    rejected: list[RejectedSource] = []
    """Files that were rejected on upload, with the reason."""
    imported: DatasetImport | None = None
    """How it is imported from a URL, or null if it was uploaded."""


class DatasetList(ListBody[Dataset]):
    """``GET /v1/datasets``: the datasets of a gateway."""

    datasets: list[Dataset]
    """The datasets on this gateway."""

    @property
    def _entries(self) -> list[Dataset]:
        return self.datasets
