"""A server with the images API on loopback: answers as it is told to, and keeps what it was asked."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from counterpose_core.images.codecs import Pixels, decode_image, encode_png
from counterpose_core.images.masks import Matte, alpha_mask
from counterpose_services.openai_api.server import OpenAIServer, Patience
from counterpose_services.outbound.calls import AnswerLimits, outbound_client

_DRAWS = itertools.count()
USAGE = {"input_tokens": 40, "output_tokens": 272, "total_tokens": 312, "input_tokens_details": {"a": 1}}


@dataclass(frozen=True)
class Asked:
    """One request as it came; ``fields`` are a body's or a form's, ``image`` and ``mask`` are the form's.

    ``mask`` (H, W) is how opaque the file in that field is.
    """

    path: str
    fields: Mapping[str, object]
    key: str | None
    image: Pixels | None = None
    mask: Matte | None = None


@dataclass(frozen=True)
class Reply:
    """What is sent; of a broken one, ``content`` is less than its header announces."""

    content: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0


Answering = Callable[[Asked, threading.Event], Reply]
"""Answers one request; the event is set when the server closes."""


@dataclass
class ImagesServer:
    """What was asked, and how; ``waits`` are the pauses that its client made, without waiting."""

    answer: Answering
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its address, as a suite names it."""
        return f"http://127.0.0.1:{self.port}/v1"

    def client(self, *, seconds: float = 30.0, most_bytes: int = 2**22) -> OpenAIServer:
        """A client through the guarded transport, whose clock goes on by its own pauses alone."""
        limits, waits = AnswerLimits(seconds, most_bytes), self.waits
        return OpenAIServer(
            self.url,
            outbound_client(limits),
            limits=limits,
            in_flight=4,
            prefix="COUNTERPOSE_SERVICES_IMAGES",
            key="of-the-house",
            patience=Patience(sleep=waits.append, clock=lambda: sum(waits), jitter=lambda: 1.0),
        )


def drawing(file: bytes, *, usage: Mapping[str, object] | None = USAGE) -> Reply:
    """Send one image file in base64."""
    told = {"created": 1, "data": [{"b64_json": base64.b64encode(file).decode()}], "usage": usage}
    return Reply(json.dumps(told).encode())


def refusal(status: int, code: object, message: str = "No.", **headers: str) -> Reply:
    """Refuse, as the API does."""
    error = {"error": {"message": message, "type": "image_generation_user_error", "code": code}}
    return Reply(json.dumps(error).encode(), status, headers)


def obey(asked: Asked, _: threading.Event) -> Reply:
    """Paint half of the image in a shade of the prompt, under grain of the seed; an unchanged one gets grain.

    Without a seed, no two images have the same grain.
    """
    seed = str(asked.fields.get("seed", f"draw {next(_DRAWS)}"))
    generator = np.random.default_rng(int(hashlib.sha256(seed.encode()).hexdigest()[:8], 16))
    prompt = str(asked.fields["prompt"])
    if asked.image is None:
        side = int(str(asked.fields["size"]).partition("x")[0])
        base = np.full((side, side, 3), 90, dtype=np.uint8)
    else:
        base = asked.image.copy()
    if not prompt.startswith("Return the image unchanged"):
        changed = slice(0, len(base) // 2) if asked.mask is None else asked.mask == 0
        base[changed] = int(hashlib.sha256(prompt.encode()).hexdigest()[:2], 16)
    grain = generator.integers(-2, 3, base.shape)
    return drawing(encode_png(np.clip(base.astype(np.int16) + grain, 0, 255).astype(np.uint8)))


def always(reply: Reply) -> Answering:
    """Answer with this, whatever is asked."""
    return lambda asked, closing: reply


def _read(handler: BaseHTTPRequestHandler) -> Asked:
    body = handler.rfile.read(int(handler.headers["content-length"]))
    kind, key = handler.headers["content-type"], handler.headers["authorization"]
    if not kind.startswith("multipart/form-data"):
        return Asked(handler.path, json.loads(body), key)
    parts = BytesParser().parsebytes(b"content-type: " + kind.encode() + b"\r\n\r\n" + body)
    fields, image, mask = dict[str, object](), None, None
    for part in parts.get_payload():
        assert isinstance(part, Message)
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        if name == "image":
            assert (part.get_filename(), part.get_content_type()) == ("image.png", "image/png")
            image = decode_image(content)
        elif name == "mask":
            assert (part.get_filename(), part.get_content_type()) == ("mask.png", "image/png")
            mask = alpha_mask(content)
        else:
            fields[str(name)] = content.decode()
    return Asked(handler.path, fields, key, image, mask)


@contextmanager
def images_server(answer: Answering = obey, port: int = 0) -> Iterator[ImagesServer]:
    """Serve during the block, on a free port by default."""
    closing = threading.Event()
    server = ImagesServer(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = _read(self)
            server.asked.append(asked)
            reply = server.answer(asked, closing)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(reply.content) + reply.missing))
            # Whoever asked may be out of patience by now, and gone.
            with suppress(ConnectionError):
                self.end_headers()
                self.wfile.write(reply.content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    listener = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.port = listener.server_port
    serving = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield server
    finally:
        closing.set()
        listener.shutdown()
        serving.join()
        listener.server_close()
