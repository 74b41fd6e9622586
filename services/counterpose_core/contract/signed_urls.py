"""Bodies of ``/v1/signed-urls``: addresses that are read without a key until they end."""

import datetime as dt
from typing import Annotated

from pydantic import Field

from counterpose_core.contract.base import ClientBody, ResponseBody
from counterpose_core.text_form import TextForm

SIGNABLE = (
    r"^/v1/(runs/[A-Za-z0-9_-]{1,64}/(report|export)|artifacts/[0-9a-f]{64}\.png)"
    r"(\?[A-Za-z0-9._~&=%+-]{1,1000})?$"
)
LONGEST_SECONDS = 7 * 24 * 3600


class SignedUrlCreate(ClientBody):
    """``POST /v1/signed-urls``: a link to a report, an export or an image."""

    path: Annotated[
        str,
        Field(max_length=1200, pattern=SIGNABLE),
        TextForm("must be the path of a report, an export or an image, such as /v1/runs/3fa8/report"),
    ]
    """Path of a report, an export or an image, with its query, such as `/v1/runs/3fa8/report`."""
    expires_in: int = Field(default=3600, ge=60, le=LONGEST_SECONDS)
    """Seconds until it ends; a week at most."""


class SignedUrl(ResponseBody):
    """A link that is read with GET, without a key."""

    url: str
    """The path with its signature, below the gateway's address."""
    expires_at: dt.datetime | None
    """When it ends, in UTC; null where the gateway asks nobody for a key, so that all read the path."""
