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
    # Spreadsheets of East Asia take the wide form of such a letter for the letter.
    _refuse(_MARKUP.search(text) or _FORMULA.match(unicodedata.normalize("NFKC", text)), field)


def check_words(text: str, *, field: str, most: int) -> None:
    """Check that a text is visible plain text that a model cannot mistake for a part of its prompt.

    Raises:
        InvalidRequest: the text is empty, too long, or contains hidden characters, markup, a formula or a
            prompt mark such as ``###``, ``{`` or ``=>``; the pointer is ``/field``.
    """
    check_text(text, field=field, most=most)
    _refuse(_FRAME.search(text), field)


def check_name(text: str, *, field: str, most: int) -> None:
    """Check the name of a class as `check_words` does, for spaces around it, and for words of two alphabets.

    Raises:
        InvalidRequest: `check_words` refuses it, a space is around it, or a word has letters of two alphabets
            that look alike.
    """
    check_words(text, field=field, most=most)
    if text.strip() != text:
        raise InvalidRequest(
            f"the {field} {text!r} begins or ends with a space; remove it", pointer=f"/{field}"
        )
    for word in _WORD.findall(unicodedata.normalize("NFC", text)):
        letters = {unicodedata.name(letter, "").partition(" ")[0]: letter for letter in word}
        if len(mixed := [alphabet for alphabet in _ALPHABETS if alphabet in letters]) > 1:
            named = " and ".join(f"{each.capitalize()} ({letters[each]!r})" for each in mixed)
            raise InvalidRequest(
                f"the {field} {text!r} has letters of {named} in one word; write each word in one alphabet",
                pointer=f"/{field}",
            )


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


def escaped(text: str) -> str:
    """Return a text of somebody else's, such as a path, with what would move a terminal's cursor escaped."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


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
    begins = unicodedata.normalize("NFKC", text[:1]).startswith(_SPREADSHEET_STARTS)
    return f"'{text}" if begins else text


_WORD = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")
_ALPHABETS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "COPTIC", "CHEROKEE")
"""Those with letters that look alike. Japanese mixes others, and Latin with them, in one word."""

# Letters of other alphabets, as their code points, with the Latin ones that they look like.
_LATIN = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0501\u04bb\u051b\u051d\u0475\u04cf\u043a"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0408\u0406\u04c0"
    "\u03b1\u03bf\u03bd\u03c1\u03b9\u03ba\u03c5\u03c7\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f"
    "\u03a1\u03a4\u03a5\u03a7\u057d\u0585\u0570\u0578\u0581\u0566\u0131\u0251\u0261\u0269\u01c0"
    "\u2010\u2011\u2012\u2013\u2212\u2018\u2019\u02bc\u2032",
    "aeopcyxsijdhqwvlkABEKMHOPCTYXSJIlaovpikuxABEZHIKMNOPTYXuohngqiagil-----" + 4 * "'",
)
_STROKES = str.maketrans("I|O", "llo")
_DIGIT_IN_WORD = re.compile(r"(?<=[^\W\d_])[01]|[01](?=[^\W\d_])")


def _plain(name: str) -> str:
    shown = (letter for letter in name if letter not in _JOINERS and not _is_variation_selector(letter))
    # The classifiers' class maps also treat an underscore as a space.
    return unicodedata.normalize("NFKC", "".join(shown)).translate(_LATIN).replace("_", " ")


def twin_key(name: str) -> str:
    """Return a key that is equal for names that differ by case, alphabet, composition or spaces alone."""
    folded = unicodedata.normalize("NFKC", _plain(name).casefold()).translate(_LATIN)
    return " ".join(folded.split())


def _shape(name: str) -> str:
    """Return a key that is equal for names that differ by I, l and 1 or by O and 0 alone, within words."""
    plain = " ".join(_plain(name).split())
    # By case, as AL and AI do not look alike. Digits by themselves are numbers.
    return _DIGIT_IN_WORD.sub(lambda found: "lo"[found[0] == "0"], plain).translate(_STROKES)


class Appearances:
    """Names of classes that are told apart by how they look; of two alike, the first is taken.

    seen = Appearances(["sled"])
    seen.twin("sIed")  # "sled"
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._twins: dict[str, str] = {}
        self._shapes: dict[str, str] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Take a name."""
        self._twins.setdefault(twin_key(name), name)
        self._shapes.setdefault(_shape(name), name)

    def twin(self, name: str) -> str | None:
        """Return the name that was taken and cannot be told apart from this one, which may be the same."""
        return self._twins.get(twin_key(name)) or self._shapes.get(_shape(name))


def find_confusable(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that a reader cannot tell apart, or None."""
    seen = Appearances()
    for name in names:
        if (twin := seen.twin(name)) is not None:
            return twin, name
        seen.add(name)
    return None
