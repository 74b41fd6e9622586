"""Images of servers: one that the images API sent, its file and its pixels, and one that a chat is shown."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import ValidationError

from counterpose_core.contract.served_images import ServedUsage
from counterpose_core.errors import BadBackendOutput, ImageTooLarge, ImageUndecodable, UnsupportedMedia
from counterpose_core.images.codecs import Pixels, decode_image, encode_png
from counterpose_services.openai_api.answers import Drawings
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.outbound.calls import Form


@dataclass(frozen=True)
class DrawnImage:
    """An image file as a server sent it, after so many seconds, and what the server says that it took."""

    file: bytes
    seconds: float
    usage: ServedUsage

    @classmethod
    def ask(cls, server: OpenAIServer, verb: str, asked: Mapping[str, Any] | Form) -> Self:
        """Ask for one image by ``POST /images/{verb}``; raises as `OpenAIServer.drawings` does.

        Raises:
            BadBackendOutput: there is not one image in the answer.
        """
        started = time.monotonic()
        answer = server.drawings(verb, asked)
        return cls(_only_file(answer, server.name), time.monotonic() - started, _usage(answer.usage))

    @classmethod
    def read(cls, kept: bytes) -> Self:
        """Read what `written` wrote."""
        head, _, file = kept.partition(b"\n")
        about = json.loads(head)
        return cls(file, about["seconds"], ServedUsage.model_validate(about["usage"]))

    @property
    def written(self) -> bytes:
        """All of it in bytes: a line of JSON, then the file."""
        about = {"seconds": self.seconds, "usage": self.usage.model_dump()}
        return json.dumps(about).encode() + b"\n" + self.file

    def pixels(self, server: str) -> Pixels:
        """Decode the file to uint8 (H, W, 3).

        Raises:
            BadBackendOutput: it is no whole PNG, JPEG or WebP, or has too many pixels; names ``server``.
        """
        try:
            return decode_image(self.file)
        except (ImageUndecodable, ImageTooLarge, UnsupportedMedia) as error:
            raise BadBackendOutput(
                f"{server!r} sent an image that cannot be used ({error.detail}); let it send a whole PNG, "
                "JPEG or WebP of a smaller size"
            ) from error


def data_url(pixels: Pixels) -> str:
    """Return an image, uint8 (H, W, 3), as a PNG in an address, as a model that chats is shown it."""
    return f"data:image/png;base64,{base64.b64encode(encode_png(pixels)).decode()}"


def _only_file(answer: Drawings, server: str) -> bytes:
    if len(answer.data) != 1:
        raise BadBackendOutput(
            f"{server!r} returned {len(answer.data)} images where one was asked for; some servers leave out "
            "what their moderation stops: try other words"
        )
    [drawing] = answer.data
    if drawing.b64_json is None:
        raise BadBackendOutput(
            f"{server!r} returned an address or nothing in place of the image, and addresses are not "
            "fetched; choose a server that sends b64_json, or set send_response_format = true in the preset"
        )
    try:
        return base64.b64decode(drawing.b64_json, validate=True)
    except ValueError as error:
        raise BadBackendOutput(
            f"{server!r} returned an image that is not base64; check the server"
        ) from error


def _usage(told: Any) -> ServedUsage:
    """Read what a server says of its use; what is no count there is as if it were not said."""
    given = told or {}
    # SGLang counts images by the names of chats.
    named = {"input_tokens": given.get("prompt_tokens"), "output_tokens": given.get("completion_tokens")}
    try:
        return ServedUsage.model_validate(named | given)
    except ValidationError:
        return ServedUsage()
