"""``/v1/token-files``: tokens that others have learned, stored for a dataset interface to name."""

from __future__ import annotations

import base64
import binascii

from fastapi import APIRouter

from counterpose_core.contract.token_files import TokenFile, TokenFilesAdd, TokenFilesAdded
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.http.strict_json import StrictRoute
from counterpose_gateway.routes.context import Context

router = APIRouter(prefix="/v1/token-files", tags=["token files"], route_class=StrictRoute)


# A plain function, not a coroutine: the store blocks, so it runs in a thread.
@router.post("", status_code=201)
def add_token_files(body: TokenFilesAdd, context: Context) -> TokenFilesAdded:
    """Store files of tokens by their content; the editor reads them when an interface takes them."""
    context.store.require_room(context.settings.least_free_bytes)
    files = [(file.class_name, _content(file, at)) for at, file in enumerate(body.files)]
    tokens = {name: context.store.put(content) for name, content in files}
    context.ledger.blobs.keep(tokens.values())
    return TokenFilesAdded(tokens=tokens)


def _content(file: TokenFile, at: int) -> bytes:
    try:
        return base64.b64decode(file.content_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(
            f"the token of {file.class_name!r} is not base64", pointer=f"/files/{at}/content_base64"
        ) from error
