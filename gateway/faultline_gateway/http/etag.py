"""Answers with an ETag, so that polling costs nothing while nothing changes."""

from __future__ import annotations

from fastapi import Request, Response
from pydantic import BaseModel

from faultline_core.blobs import digest


def etag_response(body: BaseModel, request: Request) -> Response:
    """Answer ``body`` with its ETag, or 304 where the caller has it already."""
    content = body.model_dump_json()
    # Half a digest is plenty: a collision would only repeat an answer.
    tag = f'"{digest(content.encode())[:32]}"'
    # Weak and strong tags are alike here: what is saved is the transfer, never a range of bytes.
    known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers={"etag": tag})
    return Response(content, media_type="application/json", headers={"etag": tag})
