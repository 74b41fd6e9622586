"""Interventions: apply a change of words that the user chose to a caption (LANCE, fig. 11)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from counterpose_core.text.caption_diff import words

_ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
_END = re.compile(r"\s*([.!?]*)\s*$")
# Words that begin with a vowel's letter but not with its sound: a unicorn, a ukulele, a European, a one-way
# street; but an uninvited guest. And the reverse: an hour, an X-ray, an MP3 player, an 18-wheeler.
_SPOKEN_A = re.compile(
    r"uni(?!n|m|de|ss)|unanim|u[bfkst][aeiou]|uga|ura|uru|eu|ew|one\b|once\b|ouija|utah", re.IGNORECASE
)
_SPOKEN_AN = re.compile(r"[aeiou]|hour|honest|heir|hono|x-?ray\b|suv\b|mp\d|8|1[18](?!\d)", re.IGNORECASE)


def intervene(caption: str, removed: str, added: str) -> str | None:
    """Return the caption with every ``removed`` replaced by ``added``, or None if ``removed`` does not occur.

    Whole words are compared, ignoring case. If ``removed`` is empty, ``added`` is appended before the final
    punctuation. If ``added`` is empty, ``removed`` is deleted, and the result is None if no word is left. "a"
    and "an" before a change agree with the word after them.
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
    """Yield the character ranges of the removed words in the caption, left to right, without overlap."""
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
    """Return True if the word at ``start`` is capitalised only because it begins the caption."""
    return not words(caption[:start]) and caption[start].isupper()


def agreeing_article(before: str, following: str) -> str:
    """Return ``before`` with its final "a" or "an", if any, made to agree with the word ``following``.

    By the first letter, and the first letters of the common exceptions.
    """
    article = _ARTICLE.search(before)
    if article is None or not following:
        return before
    right = "an" if _SPOKEN_AN.match(following) and not _SPOKEN_A.match(following) else "a"
    if article.group(1)[0].isupper():
        right = right.capitalize()
    return before[: article.start()] + right + article.group(2)


def _tidy(text: str) -> str:
    """Remove the double spaces and stray commas that removed words leave behind."""
    text = re.sub(r"\s+([,;:.!?])", r"\1", re.sub(r"\s+", " ", text))
    text = re.sub(r"[,;:]+(?=[,;:.!?])", "", text)
    return text.strip(" ,;:")
