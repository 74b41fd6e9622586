"""Classifiers that chat, on a scripted server: every way to answer, and whatever a model may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.classifiers import ClassifyRequest, ClassifyResponse, Prediction
from counterpose_core.images.codecs import encode_raw
from fakes.chat_server import COLOURS, ScriptedChat, by_colour, chat_classifiers, chat_suite

WAYS = ("letters", "choice", "text")


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def painted(store: BlobStore, colour: str, number: int = 0) -> str:
    return store.put(encode_raw(np.full((8, 8 + number, 3), COLOURS[colour], np.uint8)))


def asked(
    store: BlobStore,
    server: Any,
    *images: str,
    classes: tuple[str, ...] = tuple(COLOURS),
    **suite: Any,
) -> ClassifyResponse:
    classifiers = chat_classifiers(server, store, colour=chat_suite(**suite))
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
