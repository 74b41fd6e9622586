"""Bodies of ``/v1/datasets``: labelled pictures a user brings."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from faultline_core.contract.base import RequestBody, ResponseBody
from faultline_core.types import BlobRef, Name


class SourceUpload(RequestBody):
    """One labelled picture as base64, with the caption a user may bring along."""

    filename: str = Field(min_length=1, max_length=255)
    label: str = Field(min_length=1, max_length=200)
    # 18 MB of picture: base64 takes four characters for three bytes. None at all is judged as a picture is.
    content_base64: str = Field(max_length=24_000_000)
    caption: str | None = Field(default=None, max_length=2000)


class DatasetCreate(RequestBody):
    """``POST /v1/datasets``: an empty dataset that sources are then added to."""

    name: Name
    classes: list[str] | None = Field(default=None, max_length=10_000)


class SourcesAdd(RequestBody):
    """``POST /v1/datasets/{name}/sources``."""

    sources: list[SourceUpload] = Field(min_length=1, max_length=64)


class RejectedSource(ResponseBody):
    """A file that was not taken, and why; ``pointer`` leads to it in the request that brought it."""

    filename: str
    code: str
    detail: str
    pointer: str | None = None


class SourcesAdded(ResponseBody):
    """How many pictures were taken; those rejected are named."""

    added: int
    rejected: list[RejectedSource] = []


class Source(ResponseBody):
    """A labelled picture; ``id`` is the digest of its content and label."""

    id: str
    image: BlobRef
    label: str
    filename: str
    caption: str | None = None
    width: int
    height: int


class Dataset(ResponseBody):
    """A dataset and what it holds; ``rejected`` names the files that could not be read."""

    name: str
    classes: list[str]
    n_sources: int
    digest: str
    created_at: dt.datetime
    rejected: list[RejectedSource] = []


class DatasetList(ResponseBody):
    """``GET /v1/datasets``."""

    datasets: list[Dataset]
