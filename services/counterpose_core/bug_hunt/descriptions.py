"""Descriptions of failures as prompts: from words of failures, whole captions, and single sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from counterpose_core.bug_hunt.comparison import LEVEL
from counterpose_core.bug_hunt.parts import ended, place_of, sentences
from counterpose_core.bug_hunt.words import words_of_failures
from counterpose_core.text.class_prompts import fill
from counterpose_core.text.stop_words import STOP_WORDS

Source = Literal["words", "caption", "sentence", "combination"]

LOST_LABEL = "lost-label"
"""The caption does not name the label, so that its images would show anything."""
ANOTHER_CLASS = "names-another-class"
"""The caption names another class, whose images would be no failures of this one."""

_SEEMING = 2
"""Words that are tried though captions do not prove that failures have them more often."""
_COMMON = 0.8
"""A neighbour belongs to the phrase of a word if this share of the captions has it there."""
_LONGEST = 8
"""In words; what is longer is a caption, not a phrase."""
_WORD = re.compile(r"[\w'-]+")

PARENT_SLOT = "<parent>"
"""The slot for the label's parent in a baseline prompt."""
_PARENTHESIS = re.compile(rf"\s*\(\s*{PARENT_SLOT}\s*\)")


@dataclass(frozen=True)
class Description:
    """A prompt that names the label, and the words that it adds to the label."""

    prompt: str
    words: str
    source: Source


@dataclass
class Proposed:
    """Descriptions, the likeliest first, and the number of captions left out, by reason."""

    descriptions: list[Description]
    dropped: Counter[str] = field(default_factory=Counter)


def describe(
    failures: Sequence[str], successes: Sequence[str], *, template: str, label: str, classes: Sequence[str]
) -> Proposed:
    """Propose descriptions of failures, from captions of images alone.

    First the words that captions of failures have more often than captions of successes, in their phrase, the
    surest first, and a few that are not sure; then the captions of failures themselves, the most frequent
    first, and their sentences (Wiles et al., section 3: without clusters, each caption is a hypothesis).

    Args:
        failures: captions of images on which the classifier fails.
        successes: captions of images of the same prompt on which it does not.
        template: the baseline's prompt with the slot ``<class>``.
        label: what the images show.
        classes: all classes; a caption that names another one than the label is left out.
    """
    proposed = Proposed([])
    failed = usable(failures, label, classes, proposed.dropped)
    passed = usable(successes, label, classes, Counter())
    for word in _telling_words(failed, passed, label):
        proposed.descriptions.append(_of_word(word, failed, template, label))
    for caption, _ in Counter(failed).most_common():
        proposed.descriptions += _of_caption(caption, template, label)
    unique = {each.prompt.casefold(): each for each in reversed(proposed.descriptions)}
    proposed.descriptions = list(reversed(unique.values()))
    return proposed


def _telling_words(failed: Sequence[str], passed: Sequence[str], label: str) -> list[str]:
    """The words of failures that are surely more frequent among them, and a few that only seem to be.

    Few failures prove nothing of a word; but it is tried on new images, where a whole caption is too narrow.
    """
    ours, theirs = ([content_words(each, label) for each in captions] for captions in (failed, passed))
    found = [
        each
        for each in words_of_failures(ours, theirs, level=1.0)
        if each.failures * max(len(theirs), 1) > each.successes * len(ours)
    ]
    sure = [each.word for each in found if each.p_adjusted <= LEVEL]
    seeming = [each for each in found if each.p_adjusted > LEVEL and each.failures > 1]
    seeming.sort(
        key=lambda each: (-(each.failures / len(ours) - each.successes / max(len(theirs), 1)), each.word)
    )
    return sure + [each.word for each in seeming[:_SEEMING]]


def content_words(caption: str, label: str) -> frozenset[str]:
    """Return the words of a caption that say something, without those of the label."""
    return frozenset(tokens(caption)) - STOP_WORDS - frozenset(tokens(label))


def tokens(text: str) -> list[str]:
    """Return the words of a text in order, case-folded."""
    return _WORD.findall(text.casefold())


def names(text: str, label: str) -> bool:
    """Return True if a text has the words of a label next to each other."""
    return place_of(tokens(text), tokens(label)) is not None


def usable(captions: Iterable[str], label: str, classes: Sequence[str], dropped: Counter[str]) -> list[str]:
    """Return the captions that name the label and no other class; the others are counted by reason."""
    own, named, kept = tokens(label), _by_first_word(tuple(classes)), list[str]()
    for caption in captions:
        spoken = tokens(caption)
        if place_of(spoken, own) is None:
            dropped[LOST_LABEL] += 1
        elif _names_another(spoken, set(own), named):
            dropped[ANOTHER_CLASS] += 1
        else:
            kept.append(" ".join(caption.split()))
    return kept


def _names_another(spoken: list[str], own: set[str], named: Mapping[str, Sequence[list[str]]]) -> bool:
    # "fly" is no other class of "fly agaric"'s captions.
    return any(
        spoken[place : place + len(other)] == other and not own.issuperset(other)
        for place, word in enumerate(spoken)
        for other in named.get(word, ())
    )


@lru_cache(maxsize=4)
def _by_first_word(classes: tuple[str, ...]) -> Mapping[str, Sequence[list[str]]]:
    """The words of each class by the first: captions of 1,000 labels may name each of 1,000 classes."""
    found: dict[str, list[list[str]]] = {}
    for words in filter(None, map(tokens, classes)):
        found.setdefault(words[0], []).append(words)
    return found


def named_label(text: str, labels: Iterable[str]) -> str | None:
    """Return the label that a text names, of several the one of the most words, or None."""
    named = [label for label in labels if names(text, label)]
    return max(named, key=lambda label: len(tokens(label)), default=None)


def other_classes(text: str, label: str, classes: Sequence[str]) -> list[str]:
    """Return the classes that a text names beside its label."""
    return [name for name in _others(label, classes) if names(text, name)]


def _others(label: str, classes: Sequence[str]) -> list[str]:
    own = set(tokens(label))
    # "fly" is no other class of "fly agaric"'s captions.
    return [name for name in classes if name != label and not set(tokens(name)) <= own]


def _of_caption(caption: str, template: str, label: str) -> Iterator[Description]:
    yield Description(caption, _beside(caption, template, label), "caption")
    said = sentences(caption)
    for sentence in said if len(said) > 1 else ():
        whole = sentence if names(sentence, label) else f"{ended(fill(template, label))} {sentence}"
        yield Description(whole, _beside(sentence, template, label), "sentence")


def _of_word(word: str, captions: Sequence[str], template: str, label: str) -> Description:
    """Put the phrase of a word around the label as the captions do, and leave out what else they say."""
    own = tokens(label)
    before: Counter[tuple[str, ...]] = Counter()
    after: list[tuple[list[str], int]] = []
    for spoken in map(tokens, captions):
        at = place_of(spoken, own)
        if word not in spoken or at is None:
            continue
        place = spoken.index(word)
        if place < at:
            before[tuple(spoken[place:at])] += 1
        else:
            after.append((spoken[at + len(own) :], place - at - len(own)))
    if sum(before.values()) > len(after):
        return _ahead(before.most_common(1)[0][0], captions, template, label)
    phrase = _phrase(after)
    prompt = fill(template, label)
    end = "." if prompt.endswith(".") else ""
    return Description(f"{prompt.removesuffix('.')} {phrase}{end}", phrase, "words")


def _ahead(lead: tuple[str, ...], captions: Sequence[str], template: str, label: str) -> Description:
    """A description whose words precede the label: "red" of "a red sled", or "a painting of a" whole."""
    if not STOP_WORDS & set(lead):
        modified = f"{' '.join(lead)} {label}"
        return Description(fill(template, modified), " ".join(lead), "words")
    starts: Counter[tuple[str, ...]] = Counter()
    for spoken in map(tokens, captions):
        place = place_of(spoken, list(lead))
        if place is not None:
            first = place
            while first > 0 and spoken[first - 1] in STOP_WORDS:
                first -= 1
            starts[tuple(spoken[first:place])] += 1
    start = starts.most_common(1)[0][0] if starts else ()
    said = " ".join((*start, *lead))
    return Description(f"{said} {label}", said, "words")


def _phrase(found: Sequence[tuple[list[str], int]]) -> str:
    """Grow a word to its phrase, to the left over its prepositions, and over what most captions have there.

    ``found``: the words after the label of each caption, and the place of the word among them.
    """
    left, right = 0, 0
    held = list(found)
    while left + right + 1 < _LONGEST:
        neighbours = Counter(words[at - left - 1] for words, at in held if at - left - 1 >= 0)
        if not neighbours:
            break
        word, number = neighbours.most_common(1)[0]
        if word not in STOP_WORDS and number < _COMMON * len(held):
            break
        left += 1
        held = [(words, at) for words, at in held if at - left >= 0 and words[at - left] == word]
    while left + right + 1 < _LONGEST:
        neighbours = Counter(words[at + right + 1] for words, at in held if at + right + 1 < len(words))
        if not neighbours or neighbours.most_common(1)[0][1] < _COMMON * len(held):
            break
        right += 1
        word = neighbours.most_common(1)[0][0]
        held = [(words, at) for words, at in held if at + right < len(words) and words[at + right] == word]
    words, at = held[0]
    phrase = words[at - left : at + right + 1]
    while phrase[-1] in STOP_WORDS:
        phrase.pop()
    return " ".join(phrase)


def _beside(text: str, template: str, label: str) -> str:
    """What a text says beside the label alone, in its order, without words that say nothing."""
    own = {*tokens(template), *tokens(label)}
    return " ".join(word for word in tokens(text) if word not in own and word not in STOP_WORDS)


def baseline_template(template: str, parent: str | None) -> str:
    """Return the baseline's prompt with the slot ``<class>``, and with the parent in its own slot.

    Without a parent the slot is left out, with the brackets around it (the paper's "(insect)").
    """
    if parent is not None:
        return template.replace(PARENT_SLOT, parent)
    return " ".join(_PARENTHESIS.sub("", template).replace(PARENT_SLOT, "").split())
