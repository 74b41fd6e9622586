"""``client.token_files``: tokens that others have learned, for a dataset interface to take."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from counterpose._calls import Call, idempotency_headers, reading
from counterpose._token_files import token_batches
from counterpose._transport_protocol import AsyncSender
from counterpose_core.contract.token_files import TokenFilesAdd, TokenFilesAdded
from counterpose_core.types import BlobRef

UPLOAD_TIMEOUT_S = 300.0


class AsyncTokenFiles:
    """``/v1/token-files``."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def upload(
        self, path: str | PathLike[str], *, classes: Sequence[str] | None = None
    ) -> TokenFilesAdded:
        """Upload the tokens of a folder or a zip archive, such as ImageNet*'s ``tokens.zip``.

        Only the vectors in them are read, by the editor, and no code.

        Args:
            path: files called ``<number>.bin`` or ``<class>.bin``, or so with ``.safetensors``, or bundles.
            classes: the classes by number; default: ImageNet-1k's in their order.

        Raises:
            InvalidRequest: there is no token, two are of one class, one is too large, or a number has no
                class.
        """
        tokens = dict[str, BlobRef]()
        for batch in token_batches(Path(path), classes):
            # Files are addressed by content, so a repeated call stores none.
            call = Call(
                "POST",
                "/v1/token-files",
                reading(TokenFilesAdded),
                body=TokenFilesAdd(files=batch),
                headers=idempotency_headers(None),
                timeout=UPLOAD_TIMEOUT_S,
            )
            added = await self._sender.send(call)
            tokens |= added.tokens
        return TokenFilesAdded(tokens=tokens)
