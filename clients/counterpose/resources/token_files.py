"""``client.token_files``: tokens that others have learned, for a dataset interface to take."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from counterpose._calls import Call, idempotency_headers, reading
from counterpose._token_files import token_batches
from counterpose._transport_protocol import AsyncSender, Sender
from counterpose_core.contract.token_files import TokenFile, TokenFilesAdd, TokenFilesAdded

UPLOAD_TIMEOUT_S = 300.0


def add_call(files: Sequence[TokenFile]) -> Call[TokenFilesAdded]:
    """``POST /v1/token-files``; files are addressed by content, so a repeated call stores none."""
    return Call(
        method="POST",
        path="/v1/token-files",
        body=TokenFilesAdd(files=list(files)),
        parse=reading(TokenFilesAdded),
        headers=idempotency_headers(None),
        timeout=UPLOAD_TIMEOUT_S,
    )


class TokenFiles:
    """``/v1/token-files``."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def upload(self, path: str | PathLike[str], *, classes: Sequence[str] | None = None) -> TokenFilesAdded:
        """Upload the tokens of a folder or a zip archive, such as ImageNet*'s ``tokens.zip``.

        Only the vectors in them are read, by the editor, and no code.

        Args:
            path: files called ``<number>.bin`` or ``<class>.bin``, or bundles (``.safetensors``).
            classes: the classes by number; default: ImageNet-1k's in their order.

        Raises:
            InvalidRequest: there is no token, two are of one class, one is too large, or a number has no
                class.
        """
        answers = [self._sender.send(add_call(batch)) for batch in token_batches(Path(path), classes)]
        return _together(answers)


class AsyncTokenFiles:
    """``/v1/token-files``."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def upload(
        self, path: str | PathLike[str], *, classes: Sequence[str] | None = None
    ) -> TokenFilesAdded:
        """Upload the tokens of a folder or a zip archive; as the blocking client's."""
        return _together(
            [await self._sender.send(add_call(batch)) for batch in token_batches(Path(path), classes)]
        )


def _together(answers: Sequence[TokenFilesAdded]) -> TokenFilesAdded:
    return TokenFilesAdded(tokens={name: ref for answer in answers for name, ref in answer.tokens.items()})
