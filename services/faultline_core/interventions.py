"""A change of words that the user chose, made in a caption (LANCE, fig. 11)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultline_core.perturbations import words

_ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
_END = re.compile(r"\s*([.!?]*)\s*$")
# Spelt with a vowel and spoken without one, or the other way round.
_SPOKEN_A = ("uni", "use", "eu", "one", "once")
_SPOKEN_AN = ("hour", "honest", "heir", "honour", "honor")


def intervene(caption: str, removed: str, added: str) -> str | None:
    """Return the caption with ``added`` in place of every ``removed``, or None where there is none.

    Whole words are compared, without regard to case. Without ``removed`` the added words are appended,
    before a full stop; without ``added`` the removed ones are taken out, None where nothing would be
    left. "a" and "an" before a change agree with what comes after it.
    """
    if not removed:
        end = _END.search(caption)
        body = caption if end is None else caption[: end.start()]
        return f"{body} {added}{end.group(1) if end else ''}".lstrip()
    places = list(_places(caption, removed))
    if not places:
        return None
    edited, cursor = "", 0
    for start, stop in places:
        following = words(added) or words(caption[stop:])
        edited += agreeing_article(caption[cursor:start], following[0].text if following else "")
        edited += added[:1].upper() + added[1:] if _opens(caption, start) else added
        cursor = stop
    edited += caption[cursor:]
    if added:
        return edited
    edited = _tidy(edited)
    return edited if words(edited) else None


def _places(caption: str, removed: str) -> Iterator[tuple[int, int]]:
    """Character ranges of the removed words in the caption, left to right, without overlap."""
    spoken, wanted = words(caption), [word.key for word in words(removed)]
    index = 0
    while index + len(wanted) <= len(spoken):
        found = spoken[index : index + len(wanted)]
        if [word.key for word in found] == wanted:
            yield found[0].start, found[-1].end
            index += len(wanted)
        else:
            index += 1


def _opens(caption: str, start: int) -> bool:
    """Whether a capital stands there only because the caption begins."""
    return not words(caption[:start]) and caption[start].isupper()


def agreeing_article(before: str, following: str) -> str:
    """Return ``before`` with the "a" or "an" that it may end in as the word ``following`` wants it."""
    article = _ARTICLE.search(before)
    if article is None or not following:
        return before
    spoken = following.casefold()
    vowel = spoken[0] in "aeiou" and not spoken.startswith(_SPOKEN_A)
    right = "an" if vowel or spoken.startswith(_SPOKEN_AN) else "a"
    if article.group(1)[0].isupper():
        right = right.capitalize()
    return before[: article.start()] + right + article.group(2)


def _tidy(text: str) -> str:
    """Close the gaps that removed words leave: double spaces, and commas with nothing between them."""
    text = re.sub(r"\s+([,;:.!?])", r"\1", re.sub(r"\s+", " ", text))
    text = re.sub(r"[,;:]+(?=[,;:.!?])", "", text)
    return text.strip(" ,;:")
