"""The parts of a description: its sentences, or the phrases of one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from counterpose_core.text.class_prompts import CLASS_SLOT, fill
from counterpose_core.text.stop_words import STOP_WORDS

PREPOSITIONS = frozenset((
    "about", "above", "across", "after", "against", "along", "among", "amongst", "around", "at", "atop",
    "before", "behind", "below", "beneath", "beside", "between", "beyond", "by", "during", "for", "from",
    "in", "inside", "into", "near", "off", "on", "onto", "outside", "over", "past", "through", "under",
    "underneath", "upon", "with", "within", "without",
))  # fmt: skip
"""Words that begin a phrase. Not "of" and "to", which go on with one ("in front of", "next to")."""

_ADJACENT = ("next", "close")
"""Words that begin a phrase before "to"."""
_WORD = re.compile(r"[\w'-]+|[^\w\s]")
_SENTENCE = re.compile(r"[^.!?]+[.!?]?")


@dataclass(frozen=True)
class Part:
    """A part of a description: the prompt that says it alone, and the words that it adds to the label."""

    prompt: str
    words: str


def spoken(text: str) -> list[str]:
    """Return the words and punctuation marks of a text in order, case-folded."""
    return _WORD.findall(text.casefold())


def written(words: Sequence[str]) -> str:
    """Join words and punctuation marks to a text."""
    return re.sub(r" ([.,;:!?])", r"\1", " ".join(words))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [each.strip() for each in _SENTENCE.findall(text) if each.strip()]


def parts(description: str, template: str, label: str) -> list[Part]:
    """Return the parts of a description, each to be measured alone (Wiles et al., section 3, rule i).

    Sentences as in the paper; of a captioner that writes a single sentence, its phrases: "in the snow" and
    "next to a dog". What the baseline's prompt says too is no part.

    Args:
        description: a prompt that names the label.
        template: the baseline's prompt with the slot ``<class>``.
        label: what the images show.
    """
    base, found, begun = fill(template, label), list[Part](), False
    for sentence in sentences(description):
        place = place_of(spoken(sentence), spoken(label))
        if place is None or begun:
            found.append(Part(f"{ended(base)} {sentence}", sentence.rstrip(".!?")))
        else:
            begun = True
            found += _of_first(spoken(sentence), place, template, label)
    unique = {each.prompt.casefold(): each for each in reversed(found)}
    unique.pop(base.casefold(), None)
    return list(reversed(unique.values()))


def with_phrase(base: str, phrase: str) -> str:
    """Return the baseline's prompt with a phrase before its full stop, if it has one."""
    end = "." if base.endswith(".") else ""
    return f"{base.removesuffix('.')} {phrase}{end}"


def beside(text: str, template: str, label: str) -> str:
    """Return what a text says beside the label alone, in its order, without words that say nothing."""
    own = {*spoken(template), *spoken(label), *STOP_WORDS}
    return " ".join(word for word in spoken(text) if word not in own and word[0].isalnum())


def ended(prompt: str) -> str:
    """Return a prompt with a full stop, unless it ends as a sentence does."""
    return prompt if prompt.endswith((".", "!", "?")) else f"{prompt}."


def place_of(words: Sequence[str], own: Sequence[str]) -> int | None:
    """Return where the words of a label stand next to each other, or None."""
    size = len(own)
    for start in range(len(words) - size + 1 if size else 0):
        if list(words[start : start + size]) == list(own):
            return start
    return None


def _of_first(words: list[str], place: int, template: str, label: str) -> Iterator[Part]:
    """The parts of the sentence that names the label: what leads to it, and its phrases."""
    base, size = fill(template, label), len(spoken(label))
    ahead, lead = _lead(words[:place])
    if lead != spoken(template.partition(CLASS_SLOT)[0]) and _says_something(lead):
        prompt = f"{written(lead)} {label}"
        yield Part(prompt, beside(prompt, template, label))
    before, after = spoken(template.partition(CLASS_SLOT)[0]), spoken(template.partition(CLASS_SLOT)[2])
    for phrase in (*phrases(ahead), *phrases(words[place + size :])):
        if phrase != [word for word in after if word.isalnum()] and phrase != before:
            yield Part(with_phrase(base, written(phrase)), written(phrase))


def _lead(words: list[str]) -> tuple[list[str], list[str]]:
    """Split what stands before the label at its last comma, as in "in the snow, a photo of a"."""
    commas = [place for place, word in enumerate(words) if word == ","]
    return (words[: commas[-1]], words[commas[-1] + 1 :]) if commas else ([], words)


def phrases(words: Sequence[str]) -> list[list[str]]:
    """Split words at prepositions and marks: "in the snow" and "next to a dog"."""
    found: list[list[str]] = [[]]
    for place, word in enumerate(words):
        follows = words[place + 1] if place + 1 < len(words) else ""
        if not word[0].isalnum():
            found.append([])
        elif (word in PREPOSITIONS or (word in _ADJACENT and follows == "to")) and _says_something(found[-1]):
            found.append([word])
        else:
            found[-1].append(word)
    return [phrase for phrase in found if _says_something(phrase)]


def _says_something(words: Sequence[str]) -> bool:
    return any(word not in STOP_WORDS and word[0].isalnum() for word in words)
