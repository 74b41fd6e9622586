"""Prompts with a slot for the class: what is one, and how a class's word or token gets into it."""

from __future__ import annotations

import re

from faultline_core.class_slot import CLASS_SLOT, count_slots
from faultline_core.errors import InvalidRequest
from faultline_core.interventions import agreeing_article
from faultline_core.texts import check_caption, visible

LONGEST_PROMPT = 500
"""Characters; CLIP's 77 tokens, which the editor counts, seldom hold as many."""

_STAND_IN = "class"
_GLUED = re.compile(rf"\w{CLASS_SLOT}|{CLASS_SLOT}\w")
_OF_A_CLASS = re.compile(r"\s*\bof an?\b", re.IGNORECASE)
_PHOTO = re.compile(r"\bphoto(?:graph)?s?\b", re.IGNORECASE)


def check_prompt(prompt: str, *, field: str = "prompt") -> None:
    """Refuse a prompt that is no plain text or has not exactly one `CLASS_SLOT` among its words.

    Raises:
        InvalidRequest: it does, or has; the pointer is ``/field``.
        PromptTooLong: it has more words than any text encoder reads.
    """
    # The slot would pass for markup.
    check_caption(prompt.replace(CLASS_SLOT, _STAND_IN), most=LONGEST_PROMPT, field=field)
    slots = count_slots(prompt)
    if slots != 1:
        found = "no" if slots == 0 else str(slots)
        raise InvalidRequest(
            f"the {field} {prompt!r} has {found} {CLASS_SLOT}; the class takes the place of exactly one",
            pointer=f"/{field}",
        )
    if _GLUED.search(prompt):
        raise InvalidRequest(
            f"the {field} {prompt!r} has no space between {CLASS_SLOT} and a word", pointer=f"/{field}"
        )


def fill(prompt: str, word: str, *, token: bool = False) -> str:
    """Put a class's name, or its learned token, into the prompt's slot.

    "a" or "an" before a name agrees with it; before a token it stays as the prompt has it. The paper
    prints "a <class>" throughout: its tokens were learned behind "a", and their spelling has no sound,
    while "a airplane" would handicap the names that tokens are compared with.
    """
    before, _, after = prompt.partition(CLASS_SLOT)
    return f"{before if token else agreeing_article(before, word)}{word}{after}"


def is_photo(prompt: str) -> bool:
    """Whether the prompt asks for a photograph; styles do not (DI, section 3.1, note)."""
    return bool(_PHOTO.search(prompt))


def object_caption(name: str, *, photo: bool = True) -> str:
    """What CLIP compares a picture with to see the class: "a photo of a <class>", "a <class>" of a style."""
    return fill(f"a photo of a {CLASS_SLOT}" if photo else f"a {CLASS_SLOT}", name)


def shift_caption(prompt: str) -> str:
    """What is left of a prompt without "of a" and the class: "a photo in the snow", "an oil painting".

    It is the paper's "a photo <shift>" (section 3.1) for a shift that has no name of its own.
    """
    left = _OF_A_CLASS.sub("", prompt.replace(CLASS_SLOT, " "), count=1)
    spaced = " ".join(left.split())
    return spaced[:1].lower() + spaced[1:]


def check_name(name: str, *, field: str = "name") -> None:
    """Refuse a shift's name that is empty, hides letters or is more than a few words.

    Raises:
        InvalidRequest: it is.
    """
    check_caption(name, most=LONGEST_PROMPT, field=field)
    if name != " ".join(name.split()):
        raise InvalidRequest(f"the {field} {visible(name)!r} has spaces to spare", pointer=f"/{field}")
