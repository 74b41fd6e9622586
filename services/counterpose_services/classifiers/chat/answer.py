"""An answer in words, read strictly: probabilities of the labels, or why it names none of them."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from pydantic import ValidationError

from counterpose_core.errors import (
    AnswerOffList,
    AnswerRefused,
    AnswerUnreadable,
    BadBackendOutput,
    NoLabel,
)
from counterpose_services.classifiers.chat.question import LETTERS, Question, plain
from counterpose_services.models.cached_forward import Floats
from counterpose_services.openai_api.answers import ChatChoice, ChatLogprobs

LONGEST_SAID = 60
"""Characters of an answer that names no label, as it is recorded."""
MOST_WORDS = 8
"""A longer answer is not a label that the list lacks, but no label at all."""
MASS_SLACK = 5e-4
_OTHERWISE = "set answers to 'choice' or 'text' in the suite's [chat] section"
_REMEDIES: Mapping[type[NoLabel], str] = {
    AnswerRefused: "reword the question, or choose another model",
    AnswerOffList: "reword the question, or the labels",
    AnswerUnreadable: "reword the question, or raise max_tokens",
}
# Neither a refusal nor another answer is a label: only the outcome's name depends on it.
_REFUSAL = re.compile(
    r"\W*((i am|i'm|we are|we're)?\s*(very |so )?(sorry|unable)|(i|we)\s+(can't|cannot|can not|won't|"
    r"must decline|am not able)|as an ai\b|unfortunately)",
    re.IGNORECASE,
)


def read_answer(choice: ChatChoice, question: Question, server: str) -> Floats:
    """Return the probability of each label (n,): of letters as the server tells them, else 1 for the answer.

    Raises:
        NoLabel: it names none of the labels.
        BadBackendOutput: ``server`` tells no log-probabilities, or none that can be.
    """
    said = choice.message.content or ""
    if choice.finish_reason == "content_filter" or choice.message.refusal or not said.strip():
        cut = choice.finish_reason == "length" and not choice.message.refusal
        raise no_label(AnswerUnreadable if cut else AnswerRefused, choice.message.refusal or said)
    if question.answers == "letters":
        return _letters(choice, question, server)
    if question.answers == "choice":
        said = _chosen(said)
    return _only(_place(said, choice, question), question)


def no_label(kind: type[NoLabel], said: str) -> NoLabel:
    """Return the error of such an answer; its detail begins with its code, by which summaries count it."""
    words = " ".join(said.split())
    shown = words if len(words) <= LONGEST_SAID else f"{words[:LONGEST_SAID]}…"
    return kind(f"{kind.code}: the model says {shown!r}; {_REMEDIES[kind]}")


def _place(said: str, choice: ChatChoice, question: Question) -> int:
    """Return the place of the label that an answer is; nothing of a longer text is taken for one."""
    place = question.place_of.get(plain(said))
    if place is not None:
        return place
    if _REFUSAL.match(said.replace("\u2019", "'")):
        raise no_label(AnswerRefused, said)
    long = choice.finish_reason == "length" or len(said.split()) > MOST_WORDS
    raise no_label(AnswerUnreadable if long else AnswerOffList, said)


def _only(place: int, question: Question) -> Floats:
    odds = np.zeros(len(question.words), dtype=np.float32)
    odds[place] = 1.0
    return odds


def _chosen(said: str) -> str:
    """Return the label of a JSON object, or the whole text of an answer that is none."""
    text = said.strip().removeprefix("```json").strip("`").strip()
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return said
    label = read.get("label") if isinstance(read, dict) and len(read) == 1 else None
    return label if isinstance(label, str) else said


def _letters(choice: ChatChoice, question: Question, server: str) -> Floats:
    """Sum the probabilities of each letter's tokens at the place of the answer's first one.

    They stay as the server tells them: what is missing to 1 went to other words.
    """
    letters, said = LETTERS[: len(question.words)], choice.message.content or ""
    # A sentence may begin with a letter of the list, as "A dog".
    head, _, tail = said.strip().partition(".")
    named = letters.find(_letter(head)) if len(_letter(head)) == 1 else -1
    if named < 0 or (tail.strip() and plain(tail) != plain(question.listed[named])):
        return _only(_place(said, choice, question), question)
    mass = _masses(choice, server)
    if not mass[letters[named]]:
        raise BadBackendOutput(f"{server!r} returned no log-probability of its answer {said!r}; check it")
    odds = np.zeros(len(question.words), dtype=np.float32)
    for place, letter in zip(question.order, letters, strict=True):
        odds[place] = mass[letter]
    return odds


def _masses(choice: ChatChoice, server: str) -> defaultdict[str, float]:
    """Return the probability of each letter, or word, at the first token that is not a mark alone."""
    try:
        tokens = ChatLogprobs.model_validate(choice.logprobs).content
    except ValidationError as error:
        raise BadBackendOutput(
            f"{server!r} returned no log-probabilities of its answer's tokens; {_OTHERWISE}"
        ) from error
    first = next((token for token in tokens if _letter(token.token)), tokens[0])
    mass = defaultdict[str, float](float)
    for token in first.top_logprobs:
        mass[_letter(token.token)] += math.exp(min(token.logprob, 1.0))
    if sum(mass.values()) > 1.0 + MASS_SLACK:
        raise BadBackendOutput(
            f"{server!r} returned log-probabilities of more than 1 together, which are none; {_OTHERWISE}"
        )
    return mass


def _letter(token: str) -> str:
    return plain(token).upper()
