"""What a request makes a service ask servers of others for: refused calls are free, lost ones are not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem, EditRequest
from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.spending import Spent
from counterpose_core.errors import BackendUnavailable, BadBackendOutput, CounterposeError
from counterpose_core.images.codecs import encode_png, encode_raw
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.openai_api.metering import METER, Meter
from counterpose_services.openai_api.server import OpenAIServer, Patience
from counterpose_services.outbound.calls import AnswerLimits, outbound_client
from fakes.images_server import Asked, ImagesServer, Reply, drawing, images_server, obey, refusal
from fakes.suite_servers import images_suite

BODY = {"model": "m", "prompt": "a sled", "n": 1}
PNG = encode_png(np.zeros((8, 8, 3), dtype=np.uint8))
CHAT = {"choices": [{"message": {"content": "a sled"}}]}
IMAGE = Spent(calls=1, images=1, input_tokens=40, output_tokens=272)


@pytest.fixture
def server() -> Iterator[ImagesServer]:
    with images_server() as serving:
        yield serving


@pytest.fixture
def meter() -> Iterator[Meter]:
    token = METER.set(meter := Meter())
    yield meter
    METER.reset(token)


def in_turn(*replies: Reply) -> Callable[[Asked, threading.Event], Reply]:
    """Answer with one after the other."""
    left = list(replies)
    return lambda asked, closing: left.pop(0)


def of_json(**answer: object) -> Reply:
    return Reply(json.dumps(answer).encode())


@pytest.mark.parametrize(
    ("usage", "spent"),
    [
        ({"prompt_tokens": 812, "completion_tokens": 9, "total_tokens": 821}, (812, 9)),
        ({"input_tokens": 812, "output_tokens": 9}, (812, 9)),
        # What is no count is not believed, and what is not said counts as the most that was asked for.
        ({"prompt_tokens": "812", "completion_tokens": -1}, (0, 60)),
        ({"prompt_tokens": True}, (0, 60)),
        ({"prompt_tokens": 10**30, "completion_tokens": 7 * 10**18}, (0, 60)),
        (None, (0, 60)),
        ("none", (0, 60)),
    ],
)
def test_the_usage_of_an_answer_is_counted(
    server: ImagesServer, meter: Meter, usage: object, spent: tuple[int, int]
) -> None:
    server.answer = in_turn(of_json(**CHAT, usage=usage))
    server.client().chat({"model": "m", "messages": [], "max_tokens": 60})
    assert meter.spent == Spent(calls=1, input_tokens=spent[0], output_tokens=spent[1])


def test_refused_tries_are_free_and_the_answered_one_counts_once(server: ImagesServer, meter: Meter) -> None:
    server.answer = in_turn(refusal(429, "busy"), refusal(503, "down"), drawing(PNG))
    server.client().drawings("generations", BODY)
    assert (meter.spent, len(server.asked)) == (IMAGE, 3)


def test_an_answer_that_breaks_off_counts_as_asked_for(server: ImagesServer, meter: Meter) -> None:
    server.answer = in_turn(Reply(b"{", missing=9), drawing(PNG))
    server.client().drawings("generations", BODY)
    assert meter.spent == IMAGE + Spent(calls=1, images=1)


def test_a_late_answer_and_an_unreadable_one_count_as_asked_for(server: ImagesServer, meter: Meter) -> None:
    def late(asked: Asked, closing: threading.Event) -> Reply:
        closing.wait()
        return drawing(PNG)

    server.answer = late
    with pytest.raises(CounterposeError):
        server.client(seconds=0.3).drawings("generations", BODY)
    assert meter.spent == Spent(calls=1, images=1)
    server.answer = in_turn(Reply(b"<html>"))
    with pytest.raises(BadBackendOutput):
        server.client().chat({"model": "m", "messages": [], "max_tokens": 60})
    assert meter.spent == Spent(calls=2, images=1, output_tokens=60)


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), httpx.ConnectTimeout("nobody there")])
def test_a_server_that_cannot_be_reached_costs_nothing(meter: Meter, error: httpx.TransportError) -> None:
    def absent(request: httpx.Request) -> httpx.Response:
        raise error

    limits = AnswerLimits(5.0, 1000)
    away = outbound_client(limits, transport=httpx.MockTransport(absent))
    patience = Patience(sleep=lambda _: None)
    server = OpenAIServer("https://away.example/v1", away, limits=limits, in_flight=1, patience=patience)
    with pytest.raises(CounterposeError):
        server.drawings("generations", BODY)
    assert meter.spent == Spent()


def test_a_call_that_fails_sends_nothing_more_and_tells_all_that_it_sent(
    server: ImagesServer, meter: Meter
) -> None:
    refused, sent = threading.Event(), threading.Event()

    def answer(asked: Asked, closing: threading.Event) -> Reply:
        if asked.fields["model"] == "bad":
            assert refused.wait(5.0)
            assert sent.wait(5.0)
            return refusal(401, None, "rotated")
        if asked.fields["model"] == "busy":
            refused.set()
            return refusal(429, "busy")
        sent.set()
        closing.wait(0.3)
        return of_json(**CHAT, usage={"prompt_tokens": 800, "completion_tokens": 9})

    server.answer = answer
    limits = AnswerLimits(20.0, 1000)
    client = OpenAIServer(server.url, outbound_client(limits), limits=limits, in_flight=3)
    with pytest.raises(BackendUnavailable, match="rotated"):
        client.together(
            lambda model: client.chat({"model": model, "max_tokens": 60}), ["bad", "busy", "slow"]
        )
    assert meter.spent == Spent(calls=1, input_tokens=800, output_tokens=9)
    assert len(server.asked) == 3


def test_all_threads_of_a_request_add_to_its_meter_and_kept_answers_to_none(
    server: ImagesServer, meter: Meter, tmp_path: Path
) -> None:
    server.answer = obey
    store, suite = BlobStore(str(tmp_path)), images_suite(server.url).editor
    editor = ImagesApi(server.client(), suite, store)
    image = store.put(encode_raw(np.full((32, 32, 3), 90, dtype=np.uint8)))
    captions = ["a sled", "a red sled", "a blue sled"]
    request = EditRequest(
        items=[EditItem(image=image, caption="a sled", edited_caption=text) for text in captions],
        preset=ImagesApiPreset(backend="images-api"),
    )
    for _ in range(2):
        editor.edit(request, cancelled=lambda: False)
        # The control is drawn twice.
        assert meter.spent == IMAGE.times(4)
    assert len(server.asked) == 4
