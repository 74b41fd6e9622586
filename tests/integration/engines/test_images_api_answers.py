"""Bad answers of a server of images: each an outcome of its own edit, which names the server and a remedy."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Problem
from counterpose_core.contract.editor import EditItem, EditRequest
from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.images.codecs import encode_png, encode_raw
from counterpose_core.suite import EditorSuite
from counterpose_services.editor.images_api import ImagesApi
from fakes.images_server import (
    Answering,
    Asked,
    ImagesServer,
    Reply,
    always,
    drawing,
    images_server,
    obey,
    refusal,
)

BAD, AWAY = "bad-backend-output", "backend-unavailable"
PNG = encode_png(np.zeros((8, 8, 3), dtype=np.uint8))


@pytest.fixture
def server() -> Iterator[ImagesServer]:
    with images_server() as serving:
        yield serving


def of_format(kind: str, side: tuple[int, int] = (8, 8)) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", side).save(written, format=kind)
    return written.getvalue()


def told(**answer: object) -> Answering:
    return always(Reply(json.dumps({"created": 1, **answer}).encode()))


def problems(
    server: ImagesServer, folder: Path, *edited: str, seconds: float = 30.0, most_bytes: int = 2**22
) -> list[Problem | None]:
    """What became of edits, which all go on at once."""
    store = BlobStore(str(folder))
    preset = ImagesApiPreset(backend="images-api")
    suite = EditorSuite(
        model="editor-1", server=server.url, resolution=32, default_preset="api", presets={"api": preset}
    )
    image = store.put(encode_raw(np.zeros((8, 8, 3), dtype=np.uint8)))
    client = server.client(seconds=seconds, most_bytes=most_bytes)
    items = [EditItem(image=image, caption="a dog", edited_caption=text) for text in edited or ("a cat",)]
    try:
        engine = ImagesApi(client, suite, store)
        response = engine.edit(EditRequest(items=items, preset=preset), cancelled=lambda: False)
    finally:
        client.close()
    return [outcome.problem for outcome in response.outcomes]


@pytest.mark.fault("F12")
@pytest.mark.parametrize(
    ("answer", "code", "remedy"),
    [
        (always(Reply(b"<html>Welcome</html>")), BAD, "has this API below its address"),
        (always(Reply(b'{"created": 1, "da')), BAD, "has this API below its address"),
        (told(data=[]), BAD, "returned 0 images where one was asked for"),
        (told(data=[{"b64_json": ""}] * 2), BAD, "returned 2 images where one was asked for"),
        (told(data=[{"url": "https://x.example/1.png"}]), BAD, "addresses are not fetched"),
        (told(data=[{"b64_json": "data:image/png;base64,A"}]), BAD, "is not base64"),
        (always(drawing(PNG[: len(PNG) // 2])), BAD, "ends before its last chunk does"),
        (always(drawing(of_format("GIF"))), BAD, "has another format"),
        (always(drawing(of_format("PNG", (8000, 5000)))), BAD, "8000 x 5000 pixels, more than"),
        (always(Reply(b"", 302, {"location": "/elsewhere"})), BAD, "name the address itself"),
        (always(refusal(401, "bad_key")), AWAY, "COUNTERPOSE_SERVICES_IMAGES_KEY_FILE"),
        (always(refusal(403, None)), AWAY, "COUNTERPOSE_SERVICES_IMAGES_KEY_FILE"),
        (always(refusal(404, "no_model")), "unknown-model", "does not serve 'editor-1'"),
        (always(Reply(b'{"detail": "size"}', 422)), "invalid-request", "check the suite's settings"),
        (always(refusal(429, None, Retry_After="3600")), AWAY, "asks to wait 3600 s; go on later"),
        (always(refusal(500, None)), AWAY, "its own log says why"),
        (always(Reply(PNG, missing=9)), AWAY, "check that the server is running"),
    ],
    ids=[
        "a page", "half a JSON", "no image", "two images", "an address", "no base64", "half an image",
        "a GIF", "40 megapixels", "a redirect", "no key", "forbidden", "no model", "bad field",
        "429 for an hour", "a failure", "a connection that breaks",
    ],
)  # fmt: skip
def test_a_bad_answer_fails_its_edit_with_a_name_and_a_remedy(
    server: ImagesServer, tmp_path: Path, answer: Answering, code: str, remedy: str
) -> None:
    server.answer = answer
    [problem] = problems(server, tmp_path)
    assert problem is not None
    assert problem.code == code
    assert f"127.0.0.1:{server.port}" in problem.detail
    assert remedy in problem.detail


@pytest.mark.parametrize("status", [400, 403])
@pytest.mark.parametrize("code", ["moderation_blocked", "content_policy_violation"])
def test_what_a_server_s_policy_refuses_is_refused_once_and_by_this_name(
    server: ImagesServer, tmp_path: Path, status: int, code: str
) -> None:
    server.answer = always(refusal(status, code, "Rejected by the safety system."))
    [problem] = problems(server, tmp_path)
    assert problem is not None
    assert (problem.code, problem.retryable, len(server.asked)) == ("policy-refused", False, 1)
    assert f"127.0.0.1:{server.port}" in problem.detail
    assert f"({code}: 'Rejected by the safety system.')" in problem.detail


def test_an_answer_that_comes_too_late_ends_at_the_limit(server: ImagesServer, tmp_path: Path) -> None:
    def late(asked: Asked, closing: threading.Event) -> Reply:
        closing.wait()
        return Reply(b"")

    server.answer = late
    [problem] = problems(server, tmp_path, seconds=0.5)
    assert problem is not None
    assert problem.code == "deadline-exceeded"
    assert "0.5 s (COUNTERPOSE_SERVICES_IMAGES_SECONDS)" in problem.detail


def test_an_answer_of_too_many_bytes_is_not_read_to_its_end(server: ImagesServer, tmp_path: Path) -> None:
    server.answer = always(drawing(np.random.default_rng(0).bytes(9000)))
    [problem] = problems(server, tmp_path, most_bytes=2048)
    assert problem is not None
    assert "more than 2048 bytes (COUNTERPOSE_SERVICES_IMAGES_ANSWER_BYTES)" in problem.detail


def test_a_failure_is_tried_again_and_a_busy_server_is_waited_for(
    server: ImagesServer, tmp_path: Path
) -> None:
    replies = [refusal(503, None), refusal(429, None, Retry_After="7")]

    def soon(asked: Asked, closing: threading.Event) -> Reply:
        return replies.pop(0) if replies else drawing(PNG)

    server.answer = soon
    assert problems(server, tmp_path) == [None]
    assert (len(server.asked), server.waits) == (3, [2.0, 7.0])


def test_tries_come_to_an_end(server: ImagesServer, tmp_path: Path) -> None:
    server.answer = always(refusal(429, None))
    [problem] = problems(server, tmp_path, seconds=300.0)
    assert problem is not None
    assert (len(server.asked), server.waits) == (5, [2.0, 4.0, 8.0, 16.0])


def test_one_edit_s_bad_answer_is_no_other_s_and_is_asked_for_again(
    server: ImagesServer, tmp_path: Path
) -> None:
    def odd(refuse: Callable[[], Reply]) -> Answering:
        return lambda asked, closing: refuse() if "tiger" in str(asked.fields) else obey(asked, closing)

    edits = ("a cat", "a tiger", "a cow")
    server.answer = odd(lambda: drawing(PNG[:20]))
    first = problems(server, tmp_path, *edits)
    server.answer = odd(lambda: refusal(500, None))
    second = problems(server, tmp_path, *edits)
    server.answer = obey
    assert [problem and problem.code for problem in first] == [None, BAD, None]
    assert [problem and problem.code for problem in second] == [None, AWAY, None]
    before = len(server.asked)
    assert problems(server, tmp_path, *edits) == [None, None, None]
    # The other two were answered, and are not paid for again.
    assert len(server.asked) == before + 1
