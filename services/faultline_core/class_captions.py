"""Prompts from captions: which words of a caption are the class itself, and the slot in their place.

A token learns what its prompts leave unsaid. Told "a photo of a plate of food on the grass", it has nothing
to learn; told "a photo of a <class>", it has to learn the grass as well. In between stands the caption
without the words that belong to the class: "a photo of a <class> on the grass".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline_core.class_prompts import check_prompt
from faultline_core.class_slot import CLASS_SLOT, count_slots
from faultline_core.errors import InvalidRequest
from faultline_core.perturbations import Word, words
from faultline_core.statistics import proportion
from faultline_core.stop_words import STOP_WORDS

LEAST_SHARE = 0.5
"""A word belongs to a class if more of its captions have it, chance aside (the lower bound at 95 %)."""
LEAST_LIFT = 2.0
"""And if they have it so many times as often as captions of other classes, each class weighing alike."""
MOST_MODIFIERS = 2
"""So many words right before the class's own go with them, "red" of "a red sled"."""

_PLURALS = ("", "s", "es")


@dataclass(frozen=True)
class ClassCaptions:
    """What a class's captions come to.

    ``own`` are the words that belong to it, case folded, sorted. ``prompts`` has one a caption, in order:
    with `CLASS_SLOT` once, or None where no word is the class's own or no prompt can be made of the caption.
    Such a picture is left to templates.
    """

    own: tuple[str, ...]
    prompts: tuple[str | None, ...]


def class_captions(
    captions: Mapping[str, Sequence[str]], *, shared: str = "", modifiers: int = MOST_MODIFIERS
) -> dict[str, ClassCaptions]:
    """Find each class's own words among the captions of all, and put the slot in their place.

    ``captions`` maps a class's name to its pictures' captions; one may be empty. Words of the name are its
    own wherever they stand, and so are those of ``shared``, what all classes are kinds of ("bird"): a token
    that starts from it shall not be learned beside it. Of an interface of one class nothing else is: without
    other classes no word tells its pictures from any others. Up to ``modifiers`` words right before the class
    describe it and go with it: a shift is said around a class, never inside. Whatever else the class nearly
    always shows and others do not goes into the slot too, "on the water" of boats if need be; a shift says
    otherwise at its own risk.
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
    """In how many of ``n`` captions each content word stands; empty captions do not count."""

    n: int
    having: Mapping[str, int]

    def share(self, word: str) -> float:
        return self.having.get(word, 0) / self.n if self.n else 0.0


def _counts(spoken: Sequence[Sequence[Word]]) -> _Counts:
    told = [{word.key for word in each} - STOP_WORDS for each in spoken if each]
    return _Counts(len(told), {word: sum(word in each for each in told) for word in set().union(*told)})


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
    """The content words of a name, and their plurals."""
    return frozenset(
        word.key + plural for word in words(name) if word.key not in STOP_WORDS for plural in _PLURALS
    )


@dataclass(frozen=True)
class _Run:
    """Words ``first`` to ``last`` of a caption, all of them own or stop words between two own ones."""

    first: int
    last: int
    weight: tuple[bool, int]
    """Whether a word of the name is among them, and how many own words are."""


def _prompt(
    caption: str, spoken: Sequence[Word], own: frozenset[str], name: frozenset[str], modifiers: int
) -> str | None:
    runs = _runs(caption, spoken, own, name)
    if not runs or _is_taken(caption):
        return None
    # The first of equals: max keeps it.
    chosen = max(runs, key=lambda run: run.weight)
    text, cursor = "", 0
    for run in runs:
        if run is chosen:
            start = _with_modifiers(caption, spoken, run.first, modifiers)
            text += caption[cursor : spoken[start].start] + CLASS_SLOT
        else:
            # "on the water" goes whole: without the water "on the" says nothing.
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
    """Whether nothing but stop words stands between two words, and no punctuation."""
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
    """Whether the caption spells a slot of its own, in whatever way."""
    try:
        return count_slots(caption) > 0
    except InvalidRequest:
        return True


def _tidy(text: str) -> str:
    """Close the gaps that dropped words leave: spaces, and commas with nothing between them."""
    parts = [" ".join(part.split()) for part in text.split(",")]
    return ", ".join(part for part in parts if part)
