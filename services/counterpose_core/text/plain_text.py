"""Checks of texts from users (labels, captions, file names): only visible plain words are accepted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from counterpose_core.errors import InvalidRequest, PromptTooLong

MOST_WORDS = 75
"""CLIP reads 77 tokens, two of which are its start and end marks; a word has at least one token."""

_JOINERS = "\u200c\u200d"
_VIRAMA = 9
# Letters and marks by category, but invisible.
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

# Web pages, templates and shells interpret these wherever a text is shown.
_MARKUP = re.compile(r"<[a-z/!?|<]|\{[{%]|[$#]\{", re.IGNORECASE)
# Marks that frame a prompt or an answer: a model could take such text for instructions.
_FRAME = re.compile(r"[{}]|\[/?[A-Z_]{2,}\]|\[\s*[\"']|\|>|=>|###|```")
# A spreadsheet evaluates a cell that begins like this.
_FORMULA = re.compile(r"\s*(?:=|[+@-]\S*[(|!])")


def check_text(text: str, *, field: str, most: int) -> None:
    """Check that a text is visible plain text of 1 to ``most`` characters.

    Raises:
        InvalidRequest: the text is empty, too long, or contains hidden characters, markup or a formula; the
            pointer is ``/field``.
    """
    pointer = f"/{field}"
    if len(text) > most:
        raise InvalidRequest(
            f"the {field} {strip_invisible(text[:40])!r}... has more than {most} characters; shorten it",
            pointer=pointer,
        )
    if strip_invisible(text) != text:
        raise InvalidRequest(
            f"the {field} {strip_invisible(text)!r} has control or hidden characters; remove them",
            pointer=pointer,
        )
    if not text.strip():
        raise InvalidRequest(f"the {field} {text!r} is empty; write at least one word", pointer=pointer)
    _refuse(_MARKUP.search(text) or _FORMULA.match(text), field)


def check_words(text: str, *, field: str, most: int) -> None:
    """Check that a text is visible plain text that a model cannot mistake for a part of its prompt.

    Raises:
        InvalidRequest: the text is empty, too long, or contains hidden characters, markup, a formula or a
            prompt mark such as ``###``, ``{`` or ``=>``; the pointer is ``/field``.
    """
    check_text(text, field=field, most=most)
    _refuse(_FRAME.search(text), field)


def check_caption(text: str, *, most: int, field: str = "caption") -> None:
    """Check a text as `check_words` does, and that it has at most `MOST_WORDS` words.

    Raises:
        InvalidRequest: `check_words` refuses the text; the pointer is ``/field``.
        PromptTooLong: the text has too many words. A text with fewer words may still have too many tokens.
    """
    check_words(text, field=field, most=most)
    if (words := len(text.split())) > MOST_WORDS:
        raise PromptTooLong(
            f"the {field} {text[:40]!r}... has {words} words, more than {MOST_WORDS}; shorten it",
            pointer=f"/{field}",
        )


def _refuse(found: re.Match[str] | None, field: str) -> None:
    if found is not None:
        piece = found.group().strip()[:10]
        raise InvalidRequest(
            f"the {field} contains {piece!r}, which is not plain text; remove it", pointer=f"/{field}"
        )


def strip_invisible(text: str) -> str:
    """Return the text without control, surrogate, bidirectional and invisible characters."""
    return "".join(letter for index, letter in enumerate(text) if not _is_hidden(text, index))


def _is_hidden(text: str, index: int) -> bool:
    letter = text[index]
    if letter in _JOINERS:
        return not _joins(text, index)
    if _is_variation_selector(letter):
        # One selects the form of the character before it; a sequence of them can hide any message.
        return index == 0 or text[index - 1].isspace() or _is_variation_selector(text[index - 1])
    return unicodedata.category(letter) in _HIDDEN or letter in _BLANKS


def _is_variation_selector(letter: str) -> bool:
    return "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef"


def _joins(text: str, index: int) -> bool:
    """Return True if spelling needs the joiner: in an emoji, in Arabic script, or after a virama."""
    before, after = text[:index].rstrip("\ufe0f")[-1:], text[index + 1 : index + 2]
    if not before or not after:
        return False
    if unicodedata.combining(before) == _VIRAMA:
        return True
    if text[index] == "\u200d" and {_kind(before), _kind(after)} <= {"So", "Sk"}:
        return True
    return unicodedata.bidirectional(before) == "AL" == unicodedata.bidirectional(after)


_kind = unicodedata.category

_SPREADSHEET_STARTS = ("=", "+", "-", "@", "\t", "\r")


def no_formula(text: str) -> str:
    """Return a text that no spreadsheet reads as a formula: one that begins as such gets an apostrophe."""
    return f"'{text}" if text.startswith(_SPREADSHEET_STARTS) else text


def twin_key(name: str) -> str:
    """Return a key that is equal for names that a reader cannot tell apart by case, composition or spaces."""
    plain = "".join(
        letter for letter in name if letter not in _JOINERS and not _is_variation_selector(letter)
    )
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", plain).casefold())
    # The classifiers' class maps also treat an underscore as a space.
    return " ".join(folded.replace("_", " ").split())


def find_confusable(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that a reader cannot tell apart, or None."""
    seen: dict[str, str] = {}
    for name in names:
        if (key := twin_key(name)) in seen:
            return seen[key], name
        seen[key] = name
    return None
