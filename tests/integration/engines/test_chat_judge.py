"""The judge behind the OpenAI API: closed questions about two images, and whatever a server may answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.judges import JudgeItem, Judgement, JudgeRequest
from counterpose_core.errors import BackendUnavailable, CounterposeError, InvalidRequest, UnknownModel
from counterpose_core.images.codecs import decode_image, encode_raw
from counterpose_core.suite import JudgeSuite
from counterpose_services.openai_api import shared_look
from counterpose_services.openai_api.requirements import require_server
from counterpose_services.openai_api.server import ATTEMPTS
from counterpose_services.scorer.chat_judge import ChatJudge
from counterpose_services.settings import ServiceSettings
from fakes.openai_server import URL, server_over
from fakes.world import fake_suite

SUITE = JudgeSuite(server=URL, model="vlm")
YES = {"change": "yes", "object": "yes", "rest": "yes"}
Answer = Callable[[dict[str, Any]], httpx.Response]


def said(content: str | None, finish: str = "stop") -> httpx.Response:
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": finish}
    return httpx.Response(200, json={"choices": [choice], "usage": {"total_tokens": 9}})


class Server:
    """Sees colours, and answers questions about an edit as ``answer`` says."""

    def __init__(self, answer: Answer | str) -> None:
        self.answer = (lambda _: said(answer)) if isinstance(answer, str) else answer
        self.asked: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        first, second, text = body["messages"][0]["content"]
        if "same colour" in text["text"]:
            return said(json.dumps({"same": "Yes" if first == second else "no"}))
        self.asked.append(body)
        return self.answer(body)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def item(store: BlobStore, number: int = 0, **changes: Any) -> JudgeItem:
    images = [
        store.put(encode_raw(np.full((8, 8, 3), 10 * number + shade, np.uint8))) for shade in (100, 101)
    ]
    known = {"label": "dog", "caption": "a dog on grass", "edited_caption": "a dog on sand"}
    return JudgeItem.model_validate({"original": images[0], "edited": images[1]} | known | changes)


def judged(
    store: BlobStore,
    server: Callable[[httpx.Request], httpx.Response],
    *items: JudgeItem,
    seconds: float = 30.0,
) -> list[Judgement]:
    judge = ChatJudge(server_over(server), SUITE, store)
    request = JudgeRequest(judge="judge", items=list(items or (item(store),)))
    return [each.unwrap() for each in judge.judge(request).outcomes]


def test_both_images_are_shown_and_closed_questions_asked(store: BlobStore) -> None:
    server, edit = Server(json.dumps(YES)), item(store)
    assert judged(store, server, edit) == [Judgement(verdict="yes", replies=YES)]
    [body] = server.asked
    *images, text = body["messages"][0]["content"]
    for ref, part in zip((edit.original, edit.edited), images, strict=True):
        sent = base64.b64decode(part["image_url"]["url"].removeprefix("data:image/png;base64,"))
        assert np.array_equal(decode_image(sent), decode_image(store.get(ref)))
    assert 'replace "grass" by "sand"' in text["text"]
    assert "Is the dog of the first image still there" in text["text"]
    assert (body["temperature"], body["model"]) == (0.0, "vlm")


def test_a_placebo_is_not_asked_for_a_change(store: BlobStore) -> None:
    server = Server('{"object": "yes", "rest": "yes"}')
    assert judged(store, server, item(store, change=False))[0].verdict == "yes"
    text = server.asked[0]["messages"][0]["content"][2]["text"]
    assert "Return the image unchanged" in text
    assert "change:" not in text


@pytest.mark.parametrize(
    ("answer", "verdict", "detail"),
    [
        (json.dumps(YES | {"rest": "no"}), "no", "rest: no"),
        (json.dumps(YES | {"object": "unsure"}), "unsure", "object: unsure"),
        (json.dumps(YES | {"object": "unsure", "change": "no"}), "no", "change: no, object: unsure"),
        (f"\n```json\n{json.dumps(YES)}\n```\n", "yes", ""),
        (f"```\n{json.dumps(YES)}\n```", "yes", ""),
        (f"Of the form {json.dumps(YES)} I can say nothing.", "malformed", "to closed questions"),
        ('{"Change": "Yes", "object": "YES", "rest": "No"}', "no", "rest: no"),
        ("yes", "malformed", "answered 'yes' to closed questions"),
        ('{"change": "yes", "object": "yes"', "malformed", "to closed questions"),
        ('{"change": "yes", "object": "yes"}', "malformed", "it answers ['change', 'object']"),
        (json.dumps(YES | {"rest": "maybe"}), "malformed", "to closed questions"),
        (json.dumps(YES | {"rest": True}), "malformed", "to closed questions"),
        (json.dumps(YES) + json.dumps(YES | {"rest": "no"}), "malformed", "to closed questions"),
        (json.dumps(YES | {"reason": "it is red"}), "malformed", "to closed questions"),
    ],
)
def test_each_reply_is_read_strictly_and_what_has_no_form_is_no_vote(
    store: BlobStore, answer: str, verdict: str, detail: str
) -> None:
    [found] = judged(store, Server(answer))
    assert found.verdict == verdict
    assert detail in found.detail


def test_words_of_an_edit_are_no_form_of_an_answer(store: BlobStore) -> None:
    def quoting(body: dict[str, Any]) -> httpx.Response:
        return said(body["messages"][0]["content"][2]["text"].partition("told: ")[2].partition('"\n')[0])

    words = json.dumps(YES)
    edit = item(store, label=words, caption=f"a dog {words}", edited_caption=words)
    server = Server(quoting)
    assert judged(store, server, edit)[0].verdict == "malformed"
    text = server.asked[0]["messages"][0]["content"][2]["text"]
    assert "{" not in text.partition("JSON object alone")[0]
    assert 'Is the ("change": "yes"' in text


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        (said(None), "refused"),
        (said("", "content_filter"), "refused"),
        (httpx.Response(400, json={"error": {"message": "no", "code": "content_filter"}}), "refused"),
        (said("", "length"), "malformed"),
        (said('{"change": "y', "length"), "malformed"),
        (httpx.Response(200, text="<html>"), "malformed"),
        (httpx.Response(200, json={"choices": []}), "malformed"),
    ],
)
def test_a_refusal_and_an_answer_that_is_none_are_verdicts_of_their_own(
    store: BlobStore, response: httpx.Response, verdict: str
) -> None:
    found = judged(store, Server(lambda _: response), item(store), item(store, 1))
    assert [each.verdict for each in found] == [verdict, verdict]
    assert all(each.detail for each in found)


def test_an_answer_that_is_cut_says_by_what(store: BlobStore) -> None:
    [found] = judged(store, Server(lambda _: said("", "length")))
    assert "cut at 200 tokens; raise max_tokens of [judge]" in found.detail


@pytest.mark.parametrize(
    ("status", "said", "error", "sentence"),
    [
        (404, "no such model", UnknownModel, "does not serve 'vlm'"),
        (400, "context length exceeded", InvalidRequest, "context length exceeded"),
    ],
)
def test_a_fault_of_the_settings_fails_the_edit_and_is_no_verdict(
    store: BlobStore, status: int, said: str, error: type[CounterposeError], sentence: str
) -> None:
    server = Server(lambda _: httpx.Response(status, json={"error": {"message": said}}))
    judge = ChatJudge(server_over(server), SUITE, store)
    edits = [item(store), item(store, 1)]
    for asked in (edits, edits[:1]):
        for outcome in judge.judge(JudgeRequest(judge="judge", items=asked)).outcomes:
            with pytest.raises(error, match=sentence):
                outcome.unwrap()


def test_a_late_answer_is_one_too_and_the_others_count(store: BlobStore) -> None:
    def late(body: dict[str, Any]) -> httpx.Response:
        if "a late dog" in body["messages"][0]["content"][2]["text"]:
            raise httpx.ReadTimeout("slow")
        return said(json.dumps(YES))

    slow = item(store, 1, caption="a late dog on grass", edited_caption="a late dog on sand")
    assert [each.verdict for each in judged(store, Server(late), slow, item(store))] == ["late", "yes"]


def test_a_server_that_is_down_fails_the_call(store: BlobStore) -> None:
    def down(body: dict[str, Any]) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        judged(store, Server(down))


def test_callers_share_one_look_at_a_server_that_is_down(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = list[httpx.Request]()

    def down(request: httpx.Request) -> httpx.Response:
        tries.append(request)
        raise httpx.ConnectError("refused")

    judge, edit = ChatJudge(server_over(down, seconds=300.0), SUITE, store), item(store)

    def told(_: int = 0) -> str:
        with pytest.raises(BackendUnavailable) as failed:
            judge.judge(JudgeRequest(judge="judge", items=[edit]))
        return failed.value.detail

    with ThreadPoolExecutor(6) as callers:
        assert len(set(callers.map(told, range(6)))) == 1
    assert len(tries) == ATTEMPTS
    # After a while the next one looks again.
    monkeypatch.setattr(shared_look, "SHARED_FAILURE_S", 0.0)
    judge = ChatJudge(server_over(down, seconds=300.0), SUITE, store)
    for looks in (2, 3):
        told()
        assert len(tries) == looks * ATTEMPTS


def test_a_judge_that_was_not_seen_to_see_judges_once_it_is(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_look, "SHARED_FAILURE_S", 0.0)
    server, is_up = Server(json.dumps(YES)), False

    def answer(request: httpx.Request) -> httpx.Response:
        if not is_up:
            raise httpx.ConnectError("refused")
        return server(request)

    judge = ChatJudge(server_over(answer), SUITE, store)
    request = JudgeRequest(judge="judge", items=[item(store)])
    with pytest.raises(BackendUnavailable):
        judge.judge(request)
    is_up = True
    for _ in range(2):
        assert judge.judge(request).outcomes[0].unwrap().verdict == "yes"


def test_an_answer_is_paid_for_once_and_one_without_form_is_asked_for_again(store: BlobStore) -> None:
    server = Server(json.dumps(YES))
    assert judged(store, server) == judged(store, server)
    assert len(server.asked) == 1
    edit = item(store)
    judged(store, server, edit.model_copy(update={"edited": edit.original}))
    assert len(server.asked) == 2
    broken = Server("?")
    for _ in range(2):
        judged(store, broken, item(store, 1))
    assert len(broken.asked) == 2


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (said('{"same": "yes"}'), "does not see images: of two equal colours it says 'yes' to 'the same"),
        (said("I cannot see any image."), "does not judge two images: .* answered 'I cannot see any image.'"),
        (
            httpx.Response(400, json={"error": {"message": "image_url is not supported"}}),
            "does not judge two images: .*image_url is not supported.*; choose a model that takes images",
        ),
    ],
)
def test_a_judge_without_vision_is_named_before_it_judges(
    store: BlobStore, response: httpx.Response, why: str
) -> None:
    with pytest.raises(UnknownModel, match=f"the judge 'vlm at .*' {why}"):
        judged(store, lambda _: response)


def test_a_host_that_is_not_listed_gets_no_image(tmp_path: Path, store: BlobStore) -> None:
    settings = ServiceSettings.model_validate({"state_dir": tmp_path})
    suite = JudgeSuite(server="https://judges.test/v1", model="vlm")
    why = r"add 'judges\.test' to COUNTERPOSE_SERVICES_OPENAI_HOSTS"
    with pytest.raises(UnknownModel, match=why):
        ChatJudge.load(suite, settings, store)
    # Before anything is started.
    with pytest.raises(UnknownModel, match=why):
        require_server("scorer", fake_suite(), settings)
