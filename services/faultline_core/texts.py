"""Texts that somebody brings: labels, captions, file names. What is taken can be shown, and is words only."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from faultline_core.errors import InvalidRequest, PromptTooLong

MOST_WORDS = 75
"""CLIP reads 77 tokens, two of them its own marks; a word is one token at least."""

_JOINERS = "\u200c\u200d"
_VIRAMA = 9
# Letters and marks by their category, yet nothing is seen of them.
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

# Pages, templates and shells act on these wherever a text is shown.
_MARKUP = re.compile(r"<[a-z/!?|<]|\{[{%]|[$#]\{", re.IGNORECASE)
# What frames a prompt or an answer: a model could take the text for more than what it describes.
_FRAME = re.compile(r"[{}]|\[/?[A-Z_]{2,}\]|\[\s*[\"']|\|>|=>|###|```")
# A spreadsheet computes a cell that begins like this.
_FORMULA = re.compile(r"\s*(?:=|[+@-]\S*[(|!])")


def check_text(text: str, *, field: str, most: int) -> None:
    """Refuse a text that is empty, longer than ``most`` characters, hides letters or is markup.

    Raises:
        InvalidRequest: it does one of these; the pointer is ``/field``.
    """
    pointer = f"/{field}"
    if len(text) > most:
        raise InvalidRequest(
            f"the {field} {visible(text[:40])!r}... has more than {most} characters", pointer=pointer
        )
    if visible(text) != text:
        raise InvalidRequest(
            f"the {field} {visible(text)!r} has control or hidden characters", pointer=pointer
        )
    if not text.strip():
        raise InvalidRequest(f"the {field} is empty", pointer=pointer)
    _refuse(_MARKUP.search(text) or _FORMULA.match(text), field)


def check_words(text: str, *, field: str, most: int) -> None:
    """Refuse what `check_text` does, and what a model could take for a part of its prompt's frame.

    Raises:
        InvalidRequest: it is no plain text; the pointer is ``/field``.
    """
    check_text(text, field=field, most=most)
    _refuse(_FRAME.search(text), field)


def check_caption(text: str, *, most: int, field: str = "caption") -> None:
    """Refuse what `check_words` does, and more words than any text encoder of ours reads.

    Raises:
        InvalidRequest: it is no plain text.
        PromptTooLong: it has too many words; one with fewer may still have too many tokens.
    """
    check_words(text, field=field, most=most)
    if (words := len(text.split())) > MOST_WORDS:
        raise PromptTooLong(
            f"the {field} {text[:40]!r}... has {words} words; at most {MOST_WORDS} are read",
            pointer=f"/{field}",
        )


def _refuse(found: re.Match[str] | None, field: str) -> None:
    if found is not None:
        piece = found.group().strip()[:10]
        raise InvalidRequest(f"the {field} holds {piece!r}, which is no plain text", pointer=f"/{field}")


def visible(text: str) -> str:
    """Drop control, surrogate, direction-changing and invisible characters: they hide what a report shows."""
    return "".join(letter for index, letter in enumerate(text) if not _is_hidden(text, index))


def _is_hidden(text: str, index: int) -> bool:
    letter = text[index]
    if letter in _JOINERS:
        return not _joins(text, index)
    if _is_variation_selector(letter):
        # One chooses how the character before it looks; a row of them can carry any message.
        return index == 0 or text[index - 1].isspace() or _is_variation_selector(text[index - 1])
    return unicodedata.category(letter) in _HIDDEN or letter in _BLANKS


def _is_variation_selector(letter: str) -> bool:
    return "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef"


def _joins(text: str, index: int) -> bool:
    """Whether a joiner stands where spelling needs it: in an emoji, in Arabic script, after a virama."""
    before, after = text[:index].rstrip("\ufe0f")[-1:], text[index + 1 : index + 2]
    if not before or not after:
        return False
    if unicodedata.combining(before) == _VIRAMA:
        return True
    if text[index] == "\u200d" and {_kind(before), _kind(after)} <= {"So", "Sk"}:
        return True
    return unicodedata.bidirectional(before) == "AL" == unicodedata.bidirectional(after)


_kind = unicodedata.category


def twin_key(name: str) -> str:
    """What two names share that a reader cannot tell apart: case, composition and spacing aside."""
    plain = "".join(
        letter for letter in name if letter not in _JOINERS and not _is_variation_selector(letter)
    )
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", plain).casefold())
    # The classifiers' class maps take an underscore for a space, too.
    return " ".join(folded.replace("_", " ").split())


def twins(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that cannot be told apart, or None."""
    seen: dict[str, str] = {}
    for name in names:
        if (key := twin_key(name)) in seen:
            return seen[key], name
        seen[key] = name
    return None
