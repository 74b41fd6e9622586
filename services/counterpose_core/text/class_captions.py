"""Prompts from captions: find the words of a caption that name the class and put the slot in their place.

A token learns what its prompts do not say. With "a photo of a plate of food on the grass" it has nothing
to learn; with "a photo of a <class>" it also has to learn the grass. The caption without the words that
belong to the class is between these two: "a photo of a <class> on the grass".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from counterpose_core.errors import InvalidRequest
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.text.caption_diff import Word, words
from counterpose_core.text.class_prompts import CLASS_SLOT, check_prompt, count_slots
from counterpose_core.text.stop_words import STOP_WORDS

LEAST_SHARE = 0.5
"""A class owns a word if more than this share of its captions has it (by the lower 95 % bound)."""
LEAST_LIFT = 2.0
"""It must also occur this many times as often as in the captions of other classes, equally weighted."""
MOST_MODIFIERS = 2
"""At most this many words directly before the class's words are taken with them: "red" of "a red sled"."""

_PLURALS = ("", "s", "es")


@dataclass(frozen=True)
class ClassCaptions:
    """The words that a class owns and the prompts made from its captions.

    ``own`` are the words that belong to the class, case-folded and sorted. ``prompts`` has one entry per
    caption, in order: a prompt with exactly one `CLASS_SLOT`, or None if the caption has no word of the
    class or does not make a valid prompt. Such an image uses the templates.
    """

    own: tuple[str, ...]
    prompts: tuple[str | None, ...]


def class_captions(
    captions: Mapping[str, Sequence[str]], *, shared: str = "", modifiers: int = MOST_MODIFIERS
) -> dict[str, ClassCaptions]:
    """Find the words that each class owns in its captions and replace them by the slot.

    A class owns the words of its name and of ``shared``, and the words that most of its captions have and
    those of other classes rarely have, even "on the water" for boats. With a single class there is nothing to
    compare with, and it owns only the words of its name and of ``shared``.

    Args:
        captions: the captions of each class's images, by class name; a caption may be empty.
        shared: the word that all classes are kinds of ("bird"). A token that starts from this word must not
            be trained next to it.
        modifiers: the number of words directly before the class that describe it and go into the slot with
            it: a shift is written around a class, never inside.
    """
    spoken = {name: [words(caption) for caption in given] for name, given in captions.items()}
    shares = {name: _counts(given) for name, given in spoken.items()}
    found: dict[str, ClassCaptions] = {}
    for name, given in captions.items():
        named = _spellings(name) | _spellings(shared)
        own = _own_words(name, named, shares)
        prompts = [
            _prompt(caption, each, own, named, modifiers)
            for caption, each in zip(given, spoken[name], strict=True)
        ]
        found[name] = ClassCaptions(tuple(sorted(own)), tuple(prompts))
    return found


@dataclass(frozen=True)
class _Counts:
    """The number of the ``n`` captions that have each content word; empty captions do not count."""

    n: int
    having: Mapping[str, int]

    def share(self, word: str) -> float:
        return self.having.get(word, 0) / self.n if self.n else 0.0


def _counts(spoken: Sequence[Sequence[Word]]) -> _Counts:
    content = [{word.key for word in each} - STOP_WORDS for each in spoken if each]
    return _Counts(
        len(content), {word: sum(word in each for each in content) for word in set().union(*content)}
    )


def _own_words(name: str, spelt: frozenset[str], shares: Mapping[str, _Counts]) -> frozenset[str]:
    mine = shares[name]
    named = spelt & mine.having.keys()
    others = [each for other, each in shares.items() if other != name and each.n]
    if not others:
        return frozenset(named)
    telling = {
        word
        for word, count in mine.having.items()
        if (proportion(count, mine.n).low or 0.0) > LEAST_SHARE
        and mine.share(word) >= LEAST_LIFT * sum(each.share(word) for each in others) / len(others)
    }
    return frozenset(named | telling)


def _spellings(name: str) -> frozenset[str]:
    """Return the content words of a name and their plurals."""
    return frozenset(
        word.key + plural for word in words(name) if word.key not in STOP_WORDS for plural in _PLURALS
    )


@dataclass(frozen=True)
class _Run:
    """Words ``first`` to ``last`` of a caption: words of the class, and stop words between two of them."""

    first: int
    last: int
    weight: tuple[bool, int]
    """Whether the run has a word of the name, and how many words of the class it has."""


def _prompt(
    caption: str, spoken: Sequence[Word], own: frozenset[str], name: frozenset[str], modifiers: int
) -> str | None:
    runs = _runs(caption, spoken, own, name)
    if not runs or _is_taken(caption):
        return None
    # Of equal runs, max returns the first.
    chosen = max(runs, key=lambda run: run.weight)
    text, cursor = "", 0
    for run in runs:
        if run is chosen:
            start = _with_modifiers(caption, spoken, run.first, modifiers)
            text += caption[cursor : spoken[start].start] + CLASS_SLOT
        else:
            # "on the water" is removed as a whole: "on the" means nothing without "water".
            start = _with_stop_words(caption, spoken, run.first)
            text += caption[cursor : max(cursor, spoken[start].start)]
        cursor = spoken[run.last].end
    prompt = _tidy(text + caption[cursor:])
    try:
        check_prompt(prompt)
    except InvalidRequest:
        return None
    return prompt


def _runs(caption: str, spoken: Sequence[Word], own: frozenset[str], name: frozenset[str]) -> list[_Run]:
    runs: list[_Run] = []
    for place, word in enumerate(spoken):
        if word.key not in own:
            continue
        weight = (word.key in name, 1)
        if runs and _is_joined(caption, spoken, runs[-1].last, place):
            before = runs.pop()
            weight = (before.weight[0] or weight[0], before.weight[1] + 1)
            runs.append(_Run(before.first, place, weight))
        else:
            runs.append(_Run(place, place, weight))
    return runs


def _is_joined(caption: str, spoken: Sequence[Word], left: int, right: int) -> bool:
    """Return True if only stop words, and no punctuation, are between two words."""
    between = spoken[left + 1 : right]
    return all(word.key in STOP_WORDS for word in between) and all(
        _is_next(caption, spoken, place) for place in range(left, right)
    )


def _is_next(caption: str, spoken: Sequence[Word], place: int) -> bool:
    return caption[spoken[place].end : spoken[place + 1].start].isspace()


def _with_modifiers(caption: str, spoken: Sequence[Word], first: int, most: int) -> int:
    start = first
    while start > max(0, first - most) and _is_next(caption, spoken, start - 1):
        if spoken[start - 1].key in STOP_WORDS:
            break
        start -= 1
    return start


def _with_stop_words(caption: str, spoken: Sequence[Word], first: int) -> int:
    start = first
    while start > 0 and spoken[start - 1].key in STOP_WORDS and _is_next(caption, spoken, start - 1):
        start -= 1
    return start


def _is_taken(caption: str) -> bool:
    """Return True if the caption already contains a slot, in any spelling."""
    try:
        return count_slots(caption) > 0
    except InvalidRequest:
        return True


def _tidy(text: str) -> str:
    """Remove the extra spaces and commas that dropped words leave behind."""
    parts = [" ".join(part.split()) for part in text.split(",")]
    return ", ".join(part for part in parts if part)
