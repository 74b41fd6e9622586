"""Words that an image cannot verify: judgements of taste, and traits of a person that cannot be seen.

LANCE found that generators draw such words by stereotypes ("stylish" adds makeup) and proposes to refuse
them (section 4.2, "Ethical issues"); it publishes no list. This one is ours. It leaves out what an image
settles (colours, ages, sizes) and words with a plain second sense ("cool", "fine", "great" as in dogs).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from counterpose_core.stress_test.failure_modes import PERSONS

_WORD = re.compile(r"\w+(?:[-']\w+)*")
_COPULAS = frozenset({"is", "are", "look", "looks", "looking", "seem", "seems", "appear", "appears"})
_REACH = 2
"""A trait may describe a person named at most this many words later: "a rich old man"."""

_ENDINGS = (
    ("er", ""), ("er", "e"), ("est", ""), ("est", "e"), ("ier", "y"), ("iest", "y"),
    ("ly", ""), ("ly", "le"), ("ily", "y"), ("ally", ""),
)  # fmt: skip
_PLURALS = (("s", ""), ("ves", "f"))


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


JUDGEMENTS = _word_set(
    "adorable amazing annoying appealing attractive awesome awful awkward bad beautiful best better "
    "boring charming chic classy creepy cute delicious delightful disgusting dreadful eerie elegant "
    "enchanting exciting exotic exquisite extraordinary fabulous fancy fantastic fascinating fashionable "
    "frightening frumpy funny glamorous glorious good gorgeous graceful grotesque handsome hideous "
    "horrible iconic impressive incredible inspiring interesting kitschy lame lovely luxurious "
    "magnificent majestic marvellous marvelous mediocre menacing nasty nice obscene odd offensive "
    "outstanding perfect picturesque pleasant pretentious pretty provocative quaint remarkable repulsive "
    "revolting ridiculous romantic scary seductive sexy shameful shocking sinister sleazy sophisticated "
    "spectacular splendid spooky strange striking stunning stylish sublime superb suspicious tacky "
    "tasteful tasteless tasty terrible terrifying threatening trashy trendy ugly unappealing unattractive "
    "unfashionable unpleasant unsightly vulgar weird wonderful worse worst"
)
"""Judgements, of people and things; their comparatives, superlatives and adverbs count too."""

TRAITS = _word_set(
    "addicted african aggressive american arab arrogant asian atheist autistic bisexual brave british "
    "buddhist catholic caucasian chinese christian clever communist corrupt cowardly crazy cruel "
    "dangerous devout dishonest dumb educated ethnic european evil faithful famous filipino foolish "
    "foreign french gay generous german greedy greek guilty heterosexual hindu hispanic homosexual honest "
    "hostile ignorant illegal important indian indigenous innocent insane intelligent irish islamic "
    "israeli italian japanese jewish korean latino lazy lesbian loyal mexican moral muslim noble normal "
    "notorious oriental pakistani poor powerful primitive promiscuous queer racist religious respectable "
    "rich russian sane skilled smart spanish stupid successful transgender trustworthy turkish uneducated "
    "unemployed vietnamese violent wealthy wicked wise"
)
"""Traits that an image cannot show: character, mind, means, guilt, belief, origin, orientation.

They are refused only if they describe a person: "rich soil" and "a german shepherd beside a man" are kept.
"""

PEOPLE = _word_set(
    "addict alcoholic criminal delinquent extremist fascist foreigner gangster genius hooligan idiot "
    "immigrant jew migrant nazi prostitute psychopath refugee terrorist thief thug"
)
"""Nouns that name a person by such a trait."""


def subjective_word(
    added: Iterable[str], removed: Iterable[str], edited_caption: str, refused: Collection[str] = ()
) -> str | None:
    """Return the first added word that an image cannot verify or that is in ``refused``, or None.

    Args:
        added: the texts that the edit adds.
        removed: the texts that it removes; a word in both is not a change.
        edited_caption: the caption after the edit.
        refused: further words to refuse.
    """
    brought = set(_spoken(" ".join(added))) - set(_spoken(" ".join(removed)))
    spoken = _spoken(edited_caption)
    own = frozenset(word.casefold() for word in refused)
    for place, word in enumerate(spoken):
        if word in brought and any(_is_refused(part, spoken, place, own) for part in _parts(word)):
            return word
    return None


def _spoken(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _parts(word: str) -> set[str]:
    # "criminal-looking" is as subjective as "criminal".
    return {word, *word.split("-")}


def _is_refused(word: str, spoken: Sequence[str], place: int, own: frozenset[str]) -> bool:
    graded, plural = set(_without(word, _ENDINGS)), set(_without(word, _PLURALS))
    if graded & JUDGEMENTS or plural & PEOPLE or (graded | plural) & own:
        return True
    return bool((graded | plural) & TRAITS) and _said_of_a_person(spoken, place)


def _without(word: str, endings: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield word
    for ending, instead in endings:
        if word.endswith(ending):
            yield word.removesuffix(ending) + instead


def _said_of_a_person(spoken: Sequence[str], place: int) -> bool:
    before, after = set(spoken[:place]), set(spoken[place + 1 : place + 1 + _REACH])
    told = place > 0 and spoken[place - 1] in _COPULAS
    return bool(PERSONS & (before | after if told else after))
