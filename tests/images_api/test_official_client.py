"""The scripted images server, driven by the official client of the API: both understand one another."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator

import numpy as np
import openai
import pytest

from counterpose_core.images.codecs import Pixels, decode_image, encode_png
from fakes.images_server import USAGE, ImagesServer, always, images_server, refusal


@pytest.fixture
def server() -> Iterator[ImagesServer]:
    with images_server() as serving:
        yield serving


@pytest.fixture
def client(server: ImagesServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key="of-the-house", max_retries=0) as opened:
        yield opened


def shown(answer: openai.types.ImagesResponse) -> Pixels:
    assert answer.data is not None
    [image] = answer.data
    assert image.b64_json is not None
    return decode_image(base64.b64decode(image.b64_json))


def test_it_generates_an_image(server: ImagesServer, client: openai.OpenAI) -> None:
    told = client.images.generate(model="editor-1", prompt="a red boat", n=1, size="256x256")
    assert shown(told).shape == (256, 256, 3)
    assert told.usage is not None
    assert told.usage.total_tokens == USAGE["total_tokens"]
    [asked] = server.asked
    assert (asked.path, asked.key) == ("/v1/images/generations", "Bearer of-the-house")
    assert asked.fields == {"model": "editor-1", "prompt": "a red boat", "n": 1, "size": "256x256"}


def test_it_edits_an_image(server: ImagesServer, client: openai.OpenAI) -> None:
    image = np.full((24, 32, 3), 200, dtype=np.uint8)
    file = ("image.png", io.BytesIO(encode_png(image)), "image/png")
    unchanged = "Return the image unchanged. Change nothing in it."
    told = client.images.edit(model="editor-1", image=file, prompt=unchanged, extra_body={"seed": 7})
    # Grain of two levels at most.
    assert np.abs(shown(told).astype(int) - 200).max() <= 2
    [asked] = server.asked
    assert asked.path == "/v1/images/edits"
    assert asked.fields == {"model": "editor-1", "prompt": unchanged, "seed": "7"}
    assert asked.image is not None
    assert np.array_equal(asked.image, image)


def test_it_reads_a_refusal_by_policy(server: ImagesServer, client: openai.OpenAI) -> None:
    server.answer = always(refusal(400, "moderation_blocked", "Rejected."))
    with pytest.raises(openai.BadRequestError) as refused:
        client.images.generate(model="editor-1", prompt="a red boat")
    assert refused.value.code == "moderation_blocked"
