"""Classifiers that chat, on a scripted server: every way to answer, and whatever a model may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse, Prediction
from counterpose_core.contract.recipes import Recipe
from counterpose_core.errors import ClassMapMismatch, InvalidRequest, UnknownModel
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite_chats import ChatSuite
from fakes.chat_server import COLOURS, ScriptedChat, by_colour, chat_classifiers, chat_suite, said

WAYS = ("letters", "choice", "text")


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def painted(store: BlobStore, colour: str, number: int = 0) -> str:
    return store.put(encode_raw(np.full((8, 8 + number, 3), COLOURS[colour], np.uint8)))


def asked(
    store: BlobStore,
    scripted: Any,
    *images: str,
    classes: tuple[str, ...] = tuple(COLOURS),
    **suite: Any,
) -> ClassifyResponse:
    classifiers = chat_classifiers(scripted, store, colour=chat_suite(**suite))
    request = ClassifyRequest(classifier="chat:colour", images=list(images), classes=list(classes))
    return classifiers.classify(request)


def code_of(outcome: Outcome[Prediction]) -> str | None:
    return None if outcome.problem is None else outcome.problem.code


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_answer_gives_the_label(store: BlobStore, way: str) -> None:
    images = [painted(store, colour) for colour in COLOURS]
    found = asked(store, ScriptedChat(), *images, answers=way)
    assert [outcome.unwrap().top[0] for outcome in found.outcomes] == [0, 1, 2]


def test_letters_tell_probabilities_and_leave_what_went_to_other_words(store: BlobStore) -> None:
    def leave(choice: dict[str, Any]) -> None:
        [token] = choice["logprobs"]["content"]
        for one in token["top_logprobs"]:
            one["logprob"] += np.log(0.5)
        token["top_logprobs"].append({"token": " A", "logprob": float(np.log(0.25))})

    [found] = asked(store, ScriptedChat(change=leave), painted(store, "green"), answers="letters").outcomes
    odds = np.exp(by_colour(np.full((8, 8, 3), COLOURS["green"], np.uint8), list(COLOURS)))
    expected = 0.5 * odds / odds.sum() + [0.25, 0, 0]
    assert found.unwrap().probabilities == pytest.approx(expected, abs=1e-6)


def in_words(words: str | None) -> ScriptedChat:
    """A model that says this of every image."""
    return ScriptedChat(words=lambda _: words)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("both", "answer-off-list"),
        ("Rot", "answer-off-list"),
        ("gre", "answer-off-list"),
        ("word " * 2000, "answer-unreadable"),
        ("It could be red, but also green, or perhaps blue", "answer-unreadable"),
        ("I'm sorry, but I can't help with that.", "answer-refused"),
        ("Sorry, I cannot say.", "answer-refused"),
        ("I\u2019m unable to see images", "answer-refused"),
        ('{"label": "yellow"}', "answer-off-list"),
        ('{"label": ["red"]}', "answer-off-list"),
        ("  ", "answer-refused"),
    ],
)
def test_what_names_no_label_is_an_outcome_of_its_own(
    store: BlobStore, words: str, code: str, way: str
) -> None:
    [found] = asked(store, in_words(words), painted(store, "red"), answers=way).outcomes
    assert code_of(found) == code
    assert found.problem is not None
    # Summaries count it by its beginning, and keep no 2,000 words.
    assert found.problem.detail.startswith(f"{code}: the model says")
    assert len(found.problem.detail) < 150
    assert not found.problem.retryable


@pytest.mark.parametrize(
    "words",
    ["green", "Green.", '"green"', "**GREEN**", " green\n", "'Green'!", "(green)", "\u201egreen\u201c"],
)
def test_marks_and_case_around_a_label_are_no_other_answer(store: BlobStore, words: str) -> None:
    [found] = asked(store, in_words(words), painted(store, "red"), answers="text").outcomes
    assert found.unwrap().probabilities == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("words", ["B", "b.", "(B)", "B. green", "green"])
def test_a_letter_may_come_with_its_label(store: BlobStore, words: str) -> None:
    odds = [{"token": "B", "logprob": -0.1}, {"token": "A", "logprob": -3.0}]

    def handle(request: httpx.Request) -> httpx.Response:
        told = {
            "content": [
                {"token": "(", "logprob": 0.0, "top_logprobs": odds},
                {**odds[0], "top_logprobs": odds},
            ]
        }
        return said(words, logprobs=told)

    [found] = asked(store, handle, painted(store, "red"), answers="letters", look=False).outcomes
    assert found.unwrap().top[0] == 1


@pytest.mark.parametrize("words", ["A dog on the grass", "A. green", "B or C"])
def test_a_sentence_that_begins_with_a_letter_is_no_letter(store: BlobStore, words: str) -> None:
    [found] = asked(store, in_words(words), painted(store, "red"), answers="letters").outcomes
    assert code_of(found) == "answer-off-list"


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        [],
        {"content": []},
        {"content": [{"token": "A", "logprob": -0.1}]},
        {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": []}]},
        {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "A", "logprob": 0.7}]}]},
        {"content": [{"token": "A", "logprob": "-0.1", "top_logprobs": [{"token": 3, "logprob": "x"}]}]},
        {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": 3 * [{"token": "A", "logprob": -0.1}]}]},
        {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "B", "logprob": -0.1}]}]},
    ],
)
def test_log_probabilities_that_are_none_fail_the_image_and_no_label_is_guessed(
    store: BlobStore, logprobs: Any
) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        return said("A", logprobs=logprobs)

    [found] = asked(store, handle, painted(store, "red"), answers="letters", look=False).outcomes
    assert code_of(found) == "bad-backend-output"


def test_an_answer_that_is_cut_or_filtered_is_no_label(store: BlobStore) -> None:
    for change, code in (
        ({"finish_reason": "length", "message": {"content": "re"}}, "answer-unreadable"),
        ({"finish_reason": "length", "message": {"content": None}}, "answer-unreadable"),
        ({"finish_reason": "content_filter", "message": {"content": "red"}}, "answer-refused"),
        ({"message": {"content": None, "refusal": "No."}}, "answer-refused"),
        ({"message": {"content": None}}, "answer-refused"),
    ):
        server = ScriptedChat(change=lambda choice, change=change: choice.update(change))  # type: ignore[misc]
        [found] = asked(store, server, painted(store, "red"), answers="text", look=False).outcomes
        assert code_of(found) == code


def test_a_policy_of_the_server_refuses_one_image_alone(store: BlobStore) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if "iVBOR" in body["messages"][0]["content"][0]["image_url"]["url"] and server.asked:
            return httpx.Response(400, json={"error": {"message": "no", "code": "content_policy_violation"}})
        return server(request)

    server = ScriptedChat()
    found = asked(store, handle, painted(store, "red"), painted(store, "green"), answers="text")
    assert sorted(map(str, map(code_of, found.outcomes))) == ["None", "answer-refused"]


def test_the_server_decides_how_labels_are_read(store: BlobStore) -> None:
    image = painted(store, "blue")
    for knows, field in (
        (("image", "logprobs", "response_format"), "logprobs"),
        (("image", "response_format"), "response_format"),
        (("image",), None),
    ):
        server = ScriptedChat(knows=knows)
        [found] = asked(store, server, image, max_tokens=9).outcomes
        assert found.unwrap().top[0] == 2
        [body] = server.asked
        assert {"logprobs", "response_format"} & set(body) == ({field} if field else set())
        assert (body["temperature"], body["max_tokens"], body["model"]) == (0.0, 9, "vlm")


def test_a_server_without_vision_is_refused_before_any_image(store: BlobStore) -> None:
    server = ScriptedChat(knows=())
    with pytest.raises(UnknownModel, match=r"'chat:colour' cannot tell a red .*takes no images"):
        asked(store, server, painted(store, "red"))
    assert server.asked == []


def test_a_model_that_does_not_look_at_images_is_refused(store: BlobStore) -> None:
    with pytest.raises(UnknownModel, match=r"of blue it says 'red'.*look = false"):
        asked(store, lambda _: said("red"), painted(store, "red"), answers="text")
    # One of a narrow use may say so.
    [found] = asked(store, lambda _: said("red"), painted(store, "red"), answers="text", look=False).outcomes
    assert found.unwrap().top[0] == 0


HUNDREDS = tuple(f"class {number}" for number in range(300))


def test_three_hundred_labels_are_a_choice_and_no_letters(store: BlobStore) -> None:
    server = ScriptedChat(sees=lambda _, labels: [9.0 * (label == "class 250") for label in labels])
    [found] = asked(store, server, painted(store, "red"), classes=HUNDREDS).outcomes
    assert found.unwrap().top[0] == 250
    with pytest.raises(InvalidRequest, match=r"300 labels are more than the 20 .*'choice'"):
        asked(store, server, painted(store, "red"), classes=HUNDREDS, answers="letters")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("label", ["boat", "boat house", 'the "Big" boat', "'boat' house"])
def test_labels_that_contain_others_or_marks_are_told_apart(store: BlobStore, label: str, way: str) -> None:
    classes = ("boat_house", "boat", 'the "Big" boat', "'boat' house")
    server = ScriptedChat(sees=lambda _, labels: [9.0 * (one == label) for one in labels])
    [found] = asked(store, server, painted(store, "red"), classes=classes, answers=way).outcomes
    assert classes[found.unwrap().top[0]] == label.replace("boat house", "boat_house")


@pytest.mark.parametrize(
    ("classes", "labels", "match"),
    [
        (("boat", "Boat."), {}, "'boat' of the class 'boat' is shared"),
        (("red_car", "red car"), {}, "is shared with another class"),
        (("boat", "..."), {}, "has no word"),
        (("boat", "tram"), {"tram": "BOAT"}, "is shared with another class"),
    ],
)
def test_labels_that_read_alike_are_refused_before_the_server_is_asked(
    store: BlobStore, classes: tuple[str, ...], labels: dict[str, str], match: str
) -> None:
    with pytest.raises(ClassMapMismatch, match=match):
        asked(store, lambda _: pytest.fail("asked"), painted(store, "red"), classes=classes, labels=labels)


def test_the_words_of_a_label_are_the_suite_s(store: BlobStore) -> None:
    server = ScriptedChat()
    labels = {"stop": "red", "go": "green"}
    [found] = asked(
        store, server, painted(store, "green"), classes=("stop", "go"), labels=labels, answers="text"
    ).outcomes
    assert found.unwrap().top[0] == 1
    assert server.asked[0]["messages"][0]["content"][1]["text"].splitlines()[2:] == ["- red", "- green"]


def revision(store: BlobStore, classes: tuple[str, ...] = ("red", "blue"), **suite: Any) -> str:
    image = painted(store, "red")
    return asked(store, ScriptedChat(), image, classes=classes, **{"answers": "text", **suite}).model.revision


def test_question_order_of_labels_words_and_options_are_the_model_s_identity(store: BlobStore) -> None:
    changed = [
        revision(store),
        revision(store, classes=("blue", "red")),
        revision(store, question="What colour has it?"),
        revision(store, labels={"red": "crimson"}),
        revision(store, answers="letters"),
        revision(store, max_tokens=5),
        revision(store, model="other"),
        revision(store, server="https://other.test/v1"),
    ]
    assert len(set(changed)) == len(changed)
    # How it is looked at before changes no answer.
    assert revision(store, look=False) == changed[0]


def test_an_answer_is_kept_and_one_without_a_label_is_asked_for_again(store: BlobStore) -> None:
    images = [painted(store, "red"), painted(store, "green")]
    server = ScriptedChat(words=lambda pixels: "both" if pixels[0, 0, 0] == COLOURS["red"][0] else None)
    first = asked(store, server, *images, answers="text")
    assert len(server.asked) == 2
    again = asked(store, server, *images, answers="text")
    assert len(server.asked) == 3
    assert first.outcomes == again.outcomes
    # In another order it is another question.
    asked(store, server, images[1], classes=("green", "red", "blue"), answers="text")
    assert len(server.asked) == 4


def test_an_image_listed_twice_is_asked_about_once_and_a_bad_one_fails_alone(
    store: BlobStore,
) -> None:
    red, server = painted(store, "red"), ScriptedChat()
    found = asked(store, server, red, store.put(b"no image"), red, answers="text")
    assert [code_of(outcome) for outcome in found.outcomes] == [None, "image-undecodable", None]
    assert len(server.asked) == 1


def test_a_recipe_is_made_asked_and_told_by_its_pixels(store: BlobStore) -> None:
    red = painted(store, "red")
    found = asked(store, ScriptedChat(), str(Recipe(red, "rotation", level=2)), answers="text")
    prediction = found.outcomes[0].unwrap()
    assert prediction.top[0] == 0
    assert prediction.pixels is not None


def test_an_unknown_question_is_named_with_those_that_there_are(store: BlobStore) -> None:
    classifiers = chat_classifiers(ScriptedChat(), store)
    request = ClassifyRequest(classifier="chat:color", images=[painted(store, "red")], classes=["red"])
    with pytest.raises(UnknownModel, match=r"no question 'color' \(did you mean 'colour'\?\); it has colour"):
        classifiers.classify(request)
    with pytest.raises(InvalidRequest, match="prepares its images itself"):
        classifiers.classify(
            request.model_copy(update={"classifier": "chat:colour", "prepared": "blue-first"})
        )
    [described] = classifiers.describe()
    assert (described.spec, described.architecture, described.description) == (
        "chat:colour",
        "vlm",
        "Which colour?",
    )


def test_a_question_of_a_suite_needs_a_server_and_a_name_that_an_account_can_have() -> None:
    with pytest.raises(ValueError, match="server"):
        ChatSuite.model_validate({"model": "vlm"})
    with pytest.raises(ValueError, match="ends in /v1"):
        chat_suite(server="https://vlm.test/")


ENDS = {"boat": -3.0, "house": -0.01}
"""After "boat" this model hardly ever ends."""


def weighing(request: httpx.Request) -> httpx.Response:
    """Tell the log-probability of each word of the prompt, and of the mark that ends an answer."""
    body = json.loads(request.content)
    asked, *begun = body["messages"]
    assert body["add_generation_prompt"] == (not begun)
    assert (body["max_tokens"], body["prompt_logprobs"]) == (1, 0)
    said_words = begun[0]["content"].split() if begun else []
    words = [*asked["content"][1]["text"].split(), "<assistant>", *said_words]
    told: list[Any] = [None, *({word: {"logprob": -0.5}} for word in words)]
    told += [{"<end>": {"logprob": ENDS[said_words[-1]]}}] if begun else []
    choice = {"message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}
    return httpx.Response(200, json={"choices": [choice], "prompt_logprobs": told})


def test_a_pass_a_label_weighs_its_end_too(store: BlobStore) -> None:
    classes = ("boat", "boat_house")
    [found] = asked(
        store, weighing, painted(store, "red"), classes=classes, answers="labels", look=False
    ).outcomes
    odds = np.exp([-0.5 - 3.0, -1.0 - 0.01])
    assert found.unwrap().probabilities == pytest.approx(odds / odds.sum(), abs=1e-6)


def test_a_server_without_likelihoods_of_prompts_says_which_field_it_lacks(store: BlobStore) -> None:
    [found] = asked(
        store, lambda _: said("red"), painted(store, "red"), answers="labels", look=False
    ).outcomes
    assert found.problem is not None
    assert "`prompt_logprobs`" in found.problem.detail
