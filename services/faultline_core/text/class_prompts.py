"""Prompts with a slot for the class: how to check them and how to fill in a class's word or token."""

from __future__ import annotations

import re

from faultline_core.errors import InvalidRequest
from faultline_core.text.class_slot import CLASS_SLOT, count_slots
from faultline_core.text.interventions import agreeing_article
from faultline_core.text.plain_text import check_caption, strip_invisible

LONGEST_PROMPT = 500
"""In characters; CLIP's limit of 77 tokens, which the editor checks, is usually reached earlier."""

_STAND_IN = "class"
_GLUED = re.compile(rf"\w{CLASS_SLOT}|{CLASS_SLOT}\w")
_OF_A_CLASS = re.compile(r"\s*\bof an?\b", re.IGNORECASE)
_PHOTO = re.compile(r"\bphoto(?:graph)?s?\b", re.IGNORECASE)


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
