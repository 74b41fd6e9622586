"""Prompts with a slot for the class, such as ``a photo of a <class> in the snow``: checks and filling in.

The slot takes the class's name or its learned token.
"""

from __future__ import annotations

import re
import unicodedata

from counterpose_core.errors import InvalidRequest
from counterpose_core.text.interventions import agreeing_article
from counterpose_core.text.plain_text import check_caption, strip_invisible

CLASS_SLOT = "<class>"
_BRACKETS = str.maketrans(dict.fromkeys("‹〈⟨❮❰«《", "<") | dict.fromkeys("›〉⟩❯❱»》", ">"))
"""Brackets that look like the slot's and that Unicode's compatibility normalisation does not change."""
_UNSEEN = ("Z", "C")
"""Unicode categories of spaces, format marks and control characters."""
LONGEST_PROMPT = 500
"""In characters; CLIP's limit of 77 tokens, which the editor checks, is usually reached earlier."""

_STAND_IN = "class"
_GLUED = re.compile(rf"\w{CLASS_SLOT}|{CLASS_SLOT}\w")
_OF_A_CLASS = re.compile(r"\s*\bof an?\b", re.IGNORECASE)
_PHOTO = re.compile(r"\bphoto(?:graph)?s?\b", re.IGNORECASE)


def count_slots(text: str) -> int:
    """Return the number of slots in a text.

    Raises:
        InvalidRequest: the text misspells a slot, such as ``< Class >``: a reader would take it for the slot,
            but no token would ever fill it.
    """
    found = text.count(CLASS_SLOT)
    if _folded(text).count(CLASS_SLOT) != found:
        raise InvalidRequest(f"{text!r} misspells the class slot; write it as {CLASS_SLOT!r}")
    return found


def require_slot(text: str) -> None:
    """Check that a text has exactly one slot.

    Raises:
        InvalidRequest: the text has no slot, several slots or a misspelt one.
    """
    slots = count_slots(text)
    if slots != 1:
        raise InvalidRequest(
            f"{text!r} has {slots or 'no'} slots {CLASS_SLOT!r}; write exactly one, for the token"
        )


def refuse_slot(text: str) -> None:
    """Check that a text has no slot, because there is no token to fill it.

    Raises:
        InvalidRequest: the text has a slot, in any spelling.
    """
    if count_slots(text):
        raise InvalidRequest(
            f"{text!r} has a slot {CLASS_SLOT!r} but no token to fill it; give a token or remove the slot"
        )


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).translate(_BRACKETS).casefold()
    return "".join(letter for letter in plain if not unicodedata.category(letter).startswith(_UNSEEN))


def check_prompt(prompt: str, *, field: str = "prompt") -> None:
    """Check that a prompt is plain text with exactly one `CLASS_SLOT`, separated from words by spaces.

    Raises:
        InvalidRequest: the prompt is not plain text, has no or several slots, or has a word that touches the
            slot; the pointer is ``/field``.
        PromptTooLong: the prompt has more words than any text encoder reads.
    """
    # Without this the slot itself would be refused as markup.
    check_caption(prompt.replace(CLASS_SLOT, _STAND_IN), most=LONGEST_PROMPT, field=field)
    slots = count_slots(prompt)
    if slots != 1:
        found = "no" if slots == 0 else str(slots)
        raise InvalidRequest(
            f"the {field} {prompt!r} has {found} {CLASS_SLOT}; write exactly one, for the class",
            pointer=f"/{field}",
        )
    if _GLUED.search(prompt):
        raise InvalidRequest(
            f"the {field} {prompt!r} has no space between {CLASS_SLOT} and a word; add one",
            pointer=f"/{field}",
        )


def fill(prompt: str, word: str, *, token: bool = False) -> str:
    """Return the prompt with a class's name, or its learned token, in the slot.

    "a" or "an" before a name is made to agree with it; before a token it is not changed. The paper prints
    "a <class>" throughout: its tokens were learned after "a" and are not pronounced, while "a airplane"
    would handicap the names that tokens are compared with.
    """
    before, _, after = prompt.partition(CLASS_SLOT)
    return f"{before if token else agreeing_article(before, word)}{word}{after}"


def is_photo(prompt: str) -> bool:
    """Return True if the prompt asks for a photograph; style prompts do not (DI, section 3.1, note)."""
    return bool(_PHOTO.search(prompt))


def object_caption(name: str, *, photo: bool = True) -> str:
    """Return CLIP's caption for a class: "a photo of a <class>", or "a <class>" if not ``photo``."""
    return fill(f"a photo of a {CLASS_SLOT}" if photo else f"a {CLASS_SLOT}", name)


def shift_caption(prompt: str) -> str:
    """Return a prompt without "of a" and the class: "a photo in the snow", "an oil painting".

    This is the paper's "a photo <shift>" (section 3.1) for a shift that has no name.
    """
    left = _OF_A_CLASS.sub("", prompt.replace(CLASS_SLOT, " "), count=1)
    spaced = " ".join(left.split())
    return spaced[:1].lower() + spaced[1:]


def check_name(name: str, *, field: str = "name") -> None:
    """Check that a shift's name is plain, visible text without extra spaces.

    Raises:
        InvalidRequest: the name is empty, too long or not plain text, or has extra spaces; the pointer is
            ``/field``.
        PromptTooLong: the name has more words than any text encoder reads.
    """
    check_caption(name, most=LONGEST_PROMPT, field=field)
    if name != " ".join(name.split()):
        raise InvalidRequest(
            f"the {field} {strip_invisible(name)!r} has leading, trailing or repeated spaces; remove them",
            pointer=f"/{field}",
        )
