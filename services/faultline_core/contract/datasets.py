"""Bodies of ``/v1/datasets``: labelled images that a user uploads."""

import datetime as dt

from pydantic import Field

from faultline_core.contract.base import DISTINCT, ClientBody, ListBody, ResponseBody
from faultline_core.types import BlobRef, PortableName


class SourceUpload(ClientBody):
    """One labelled image to add to a dataset."""

    filename: str = Field(
        min_length=1, max_length=255, description="Name of the file; exports and reports show it."
    )
    label: str = Field(min_length=1, max_length=200, description="Class of the image.")
    # 18 MB of image: base64 takes four characters for three bytes. An empty one is rejected as an image is.
    content_base64: str = Field(
        max_length=24_000_000, description="Bytes of a PNG, JPEG or WebP file in base64."
    )
    caption: str | None = Field(
        default=None,
        max_length=2000,
        json_schema_extra={"minLength": 1},
        description="Caption to use in place of the captioner's, or null to let the captioner write one.",
    )
    group: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Name that images share which are not independent, such as frames of one video; null "
        "for an image that stands alone. All images of a group are of one class.",
    )


class DatasetCreate(ClientBody):
    """``POST /v1/datasets``: an empty dataset, to which images are added later."""

    name: PortableName = Field(
        description="Name of the dataset, unique on this gateway; not one that Windows reserves, such as CON."
    )
    classes: list[str] | None = Field(
        default=None,
        max_length=10_000,
        # Only said: an empty list or an empty caption is refused by rules that name the image or the class.
        json_schema_extra=DISTINCT | {"minItems": 1},
        description="The allowed labels, or null to take the classes from the labels.",
    )


class SourcesAdd(ClientBody):
    """``POST /v1/datasets/{name}/sources``: labelled images to add to a dataset."""

    sources: list[SourceUpload] = Field(
        min_length=1, max_length=64, description="The labelled images to add."
    )


class RejectedSource(ResponseBody):
    """A file that was rejected."""

    filename: str = Field(description="Name of the rejected file.")
    code: str = Field(description="Error code from the closed list.")
    detail: str = Field(description="Why the file was rejected.")
    pointer: str | None = Field(
        default=None,
        description="JSON pointer to the image in the request that sent it, or null if there was no such "
        "request.",
    )


class SourcesAdded(ResponseBody):
    """Answer to `SourcesAdd`."""

    added: int = Field(description="Number of images that were added.")
    rejected: list[RejectedSource] = Field(
        default=[], description="The files that were rejected, with the reason."
    )


class Source(ResponseBody):
    """A labelled image of a dataset."""

    id: str = Field(description="Digest of the image's content and label.")
    image: BlobRef = Field(description="SHA-256 of the image in the store.")
    label: str = Field(description="Class of the image.")
    filename: str = Field(description="Name of the file it was uploaded as.")
    caption: str | None = Field(
        default=None, description="Caption that was uploaded with it, or null if there was none."
    )
    group: str | None = Field(
        default=None,
        description="Group of images that are not independent, such as frames of one video, or null if the "
        "image stands alone.",
    )
    width: int = Field(description="Width in pixels.")
    height: int = Field(description="Height in pixels.")


class Dataset(ResponseBody):
    """A dataset and its contents."""

    name: str = Field(description="Name of the dataset.")
    classes: list[str] = Field(description="The classes of the dataset.")
    n_sources: int = Field(description="Number of labelled images.")
    digest: str = Field(
        description="Digest over all images, labels and groups; it changes whenever the dataset does."
    )
    created_at: dt.datetime = Field(description="When the dataset was created, in UTC.")
    rejected: list[RejectedSource] = Field(
        default=[], description="Files that were rejected on upload, with the reason."
    )


class DatasetList(ListBody[Dataset]):
    """``GET /v1/datasets``: the datasets of a gateway."""

    datasets: list[Dataset] = Field(description="The datasets on this gateway.")

    @property
    def _entries(self) -> list[Dataset]:
        return self.datasets
