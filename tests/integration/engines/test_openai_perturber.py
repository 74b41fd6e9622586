"""The perturber behind the OpenAI API: the transformers engine's answers, and every way a server fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from counterpose_core.contract.perturber import (
    LikelihoodsRequest,
    PerturbItem,
    PerturbRequest,
    PerturbResponse,
)
from counterpose_core.errors import (
    BackendUnavailable,
    BadBackendOutput,
    CounterposeError,
    DeadlineExceeded,
    InvalidRequest,
    UnknownModel,
)
from counterpose_core.suite import PerturberSuite
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.perturber.vocabulary import Vocabulary
from fakes.openai_server import ADAPTED, BASE, Handler, TinyServer, engine_over, server_over, tiny_engine
from fakes.tiny_models.llama import save_llama

GREEDY = PerturberSuite(
    model="perturber", adapter="perturber/adapter", max_new_tokens=8, prompt="compact", top_k=1
)
CHAT = PerturberSuite(engine="openai", server="http://model.test/v1", model=BASE, prompt="chat")
COMPLETION = {"choices": [{"text": "a blue boat", "finish_reason": "stop"}]}


@pytest.fixture(scope="module")
def root(models: Path) -> Path:
    save_llama(models / "perturber")
    return models


def asked(*captions: str) -> PerturbRequest:
    items = [
        PerturbItem(caption=caption, perturbation_type="adjective", n=2, seed=row)
        for row, caption in enumerate(captions)
    ]
    return PerturbRequest(items=items)


def answers(response: PerturbResponse) -> list[object]:
    return [outcome.value for outcome in response.outcomes]


def test_greedy_answers_and_likelihoods_are_those_of_the_transformers_engine(root: Path) -> None:
    here, there = PerturberEngine.load(GREEDY, root), tiny_engine(GREEDY, root)
    captions = ("a red boat on the sea", "the tram at night", "a sled in snow with dogs")
    assert answers(there.perturb(asked(*captions))) == answers(here.perturb(asked(*captions)))
    texts = LikelihoodsRequest(texts=list(captions))
    for one, two in zip(here.likelihoods(texts).outcomes, there.likelihoods(texts).outcomes, strict=True):
        assert two.unwrap().tokens == one.unwrap().tokens
        assert two.unwrap().nats == pytest.approx(one.unwrap().nats, rel=1e-4)


def test_the_adapter_is_chosen_by_name_and_likelihoods_are_the_base_s(root: Path) -> None:
    server = TinyServer(GREEDY, root)
    reader = Vocabulary.load(root / "perturber", room=8)
    engine = engine_over(server, GREEDY, reader)
    engine.perturb(asked("a red boat"))
    engine.likelihoods(LikelihoodsRequest(texts=["a red boat"]))
    assert {(body["model"], bool(body.get("echo"))) for body in server.seen} == {
        (ADAPTED, False), (BASE, True),
    }  # fmt: skip
    sent = server.seen[0]
    assert sent["prompt"] == reader.prompt("adjective : a red boat =>", "a red boat")
    assert (sent["max_tokens"], sent["top_k"], sent["top_p"]) == (8, 1, 1.0)


def chat_answer(content: str | None, finish: str = "stop") -> httpx.Response:
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": finish}
    return httpx.Response(200, json={"choices": [choice]})


def test_an_instruct_model_is_asked_by_examples_under_a_schema() -> None:
    seen = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        return chat_answer('{"captions": ["a blue boat", "a red boat", " a green boat "]}')

    found = engine_over(handle, CHAT, None).perturb(asked("a red boat")).outcomes[0].unwrap()
    assert [edit.edited_caption for edit in found.edits] == ["a blue boat", "a green boat"]
    assert found.dropped == {"echo": 1}
    roles = [message["role"] for message in seen[0]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert seen[0]["messages"][-1]["content"] == "Caption: a red boat"
    assert seen[0]["response_format"]["json_schema"]["schema"]["required"] == ["captions"]


def test_an_answer_cut_within_its_list_is_counted_and_drawn_again() -> None:
    replies = [chat_answer('{"captions": ["a blue b', "length"), chat_answer('{"captions": ["a tram"]}')]
    engine = engine_over(lambda _: replies.pop(0) if len(replies) > 1 else replies[0], CHAT, None)
    found = engine.perturb(asked("a red boat")).outcomes[0].unwrap()
    assert [edit.edited_caption for edit in found.edits] == ["a tram"]
    assert found.dropped["unfinished"] == 1


def test_a_server_that_ignores_the_schema_is_named() -> None:
    engine = engine_over(lambda _: chat_answer("Sure! Here are some captions:"), CHAT, None)
    problem = engine.perturb(asked("a red boat")).outcomes[0].problem
    assert problem is not None
    assert (problem.code, problem.retryable) == ("bad-backend-output", True)
    assert "'http://model.test/v1' did not keep the response format" in problem.detail


@pytest.mark.fault("B30")
@pytest.mark.parametrize("mark", ["</s>", "<|im_end|>", "[/INST]", "<end_of_turn>"])
def test_marks_of_common_models_are_refused_where_the_server_reads_the_text(mark: str) -> None:
    engine = engine_over(lambda _: chat_answer('{"captions": ["a tram"]}'), CHAT, None)
    first, second = engine.perturb(asked(f"a boat {mark}", "a boat")).outcomes
    assert first.problem is not None
    assert first.problem.code == "invalid-request"
    assert second.value is not None


def test_without_a_vocabulary_prompts_and_texts_are_sent_as_they_are() -> None:
    seen = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        choice = COMPLETION["choices"][0] | {"logprobs": {"token_logprobs": [None, -1.5, -2.0]}}
        return httpx.Response(200, json={"choices": [choice]})

    engine = engine_over(handle, GREEDY, None)
    assert engine.perturb(asked("a red boat")).outcomes[0].unwrap().edits[0].edited_caption == "a blue boat"
    weighed = engine.likelihoods(LikelihoodsRequest(texts=["a red boat"])).outcomes[0].unwrap()
    assert (weighed.nats, weighed.tokens) == (-3.5, 2)
    assert {body["prompt"] for body in seen} == {"adjective : a red boat =>", "a red boat"}
    assert "return_token_ids" not in seen[0]


BAD = {
    "a page": httpx.Response(200, text="<html>"),
    "half of a JSON": httpx.Response(200, text='{"choices": [{"te'),
    "another schema": httpx.Response(200, json={"outputs": []}),
    "no choice": httpx.Response(200, json={"choices": []}),
    "nothing": httpx.Response(200, content=b""),
    "a redirection": httpx.Response(302, headers={"location": "http://elsewhere.test"}),
    "too much": httpx.Response(200, content=b" " * (2**20 + 1)),
}


@pytest.mark.fault("F12")
@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
def test_a_bad_answer_fails_its_item_and_may_be_tried_again(answer: httpx.Response) -> None:
    problem = engine_over(lambda _: answer, GREEDY, None).perturb(asked("a boat")).outcomes[0].problem
    assert problem is not None
    assert (problem.code, problem.retryable) == ("bad-backend-output", True)
    assert "http://model.test/v1" in problem.detail


@pytest.mark.fault("F12")
@pytest.mark.parametrize("odds", [[-1.0, -2.0], [None], [None, None, -1.0], None])
def test_likelihoods_that_are_none_are_refused(odds: list[float | None] | None) -> None:
    told = {} if odds is None else {"logprobs": {"token_logprobs": odds}}
    answer = {"choices": [COMPLETION["choices"][0] | told]}
    engine = engine_over(lambda _: httpx.Response(200, json=answer), GREEDY, None)
    problem = engine.likelihoods(LikelihoodsRequest(texts=["a boat"])).outcomes[0].problem
    assert problem is not None
    assert problem.code == "bad-backend-output"


def refusing(*answers: httpx.Response | Exception) -> Handler:
    """Refuse so, one after another, and then answer."""
    left = list(answers)

    def handle(_: httpx.Request) -> httpx.Response:
        answer = left.pop(0) if left else httpx.Response(200, json=COMPLETION)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return handle


@pytest.mark.parametrize(
    ("answers", "pauses"),
    [
        ([httpx.Response(429, headers={"retry-after": "7"})], [7.0]),
        ([httpx.Response(503), httpx.Response(500)], [2.0, 4.0]),
        ([httpx.ConnectError("refused"), httpx.ReadError("reset")], [2.0, 4.0]),
        ([httpx.Response(503, headers={"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"})], [0.0]),
    ],
    ids=["too many requests", "failures", "no connection", "a date"],
)
def test_a_busy_server_is_asked_again_after_the_pause_it_names(
    answers: list[httpx.Response | Exception], pauses: list[float]
) -> None:
    waits: list[float] = []
    server = server_over(refusing(*answers), waits=waits)
    assert server.completion({"model": BASE}).only.text == "a blue boat"
    assert waits == pauses


def test_tries_end_with_the_time_of_the_call() -> None:
    waits: list[float] = []
    refused = [httpx.Response(429, headers={"retry-after": "20"})] * 9
    with pytest.raises(BackendUnavailable, match="status 429"):
        server_over(refusing(*refused), waits=waits).completion({"model": BASE})
    assert waits == [20.0]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (httpx.Response(400, json={"error": {"message": "context length is 64"}}), InvalidRequest, "is 64"),
        (httpx.Response(404, text="none"), UnknownModel, "does not serve 'base'"),
        (httpx.Response(401), BackendUnavailable, "COUNTERPOSE_SERVICES_OPENAI_KEY_FILE"),
        (httpx.ReadTimeout("slow"), DeadlineExceeded, "COUNTERPOSE_SERVICES_OPENAI_SECONDS"),
        (
            httpx.Response(200, content=b" " * 2**21),
            BadBackendOutput,
            "COUNTERPOSE_SERVICES_OPENAI_ANSWER_BYTES",
        ),
    ],
)
def test_what_no_other_try_would_mend_is_said_at_once(
    answer: httpx.Response | Exception, kind: type[CounterposeError], words: str
) -> None:
    waits: list[float] = []
    with pytest.raises(kind, match=words) as caught:
        server_over(refusing(answer), waits=waits).completion({"model": BASE})
    assert "http://model.test/v1" in caught.value.detail
    assert waits == []


def test_a_server_that_is_down_fails_the_whole_call_so_that_it_is_repeated() -> None:
    """The outcome of an item would be recorded; the gateway repeats a call until the server is back."""
    with pytest.raises(BackendUnavailable):
        engine_over(refusing(*[httpx.ConnectError("refused")] * 99), GREEDY, None).perturb(asked("a boat"))


def test_a_server_has_no_more_requests_at_once_than_allowed() -> None:
    inside, most, never = 0, 0, threading.Event()
    lock = threading.Lock()

    def handle(_: httpx.Request) -> httpx.Response:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        never.wait(0.03)
        with lock:
            inside -= 1
        return httpx.Response(200, json=COMPLETION)

    server = server_over(handle, in_flight=3)

    def call(rows: Sequence[int]) -> None:
        server.together(lambda row: server.completion({"model": BASE, "row": row}), rows)

    # A call of one request has no thread of its own.
    with ThreadPoolExecutor(12) as callers:
        list(callers.map(call, [range(12), *([row] for row in range(11))]))
    assert most == 3
