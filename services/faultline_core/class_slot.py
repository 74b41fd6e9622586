"""The slot of a prompt in which a learned token stands: ``a photo of a <class> in the snow``."""

from __future__ import annotations

import unicodedata

from faultline_core.errors import InvalidRequest

CLASS_SLOT = "<class>"
_BRACKETS = str.maketrans(dict.fromkeys("‹〈⟨❮❰«《", "<") | dict.fromkeys("›〉⟩❯❱»》", ">"))
"""Angles that look like those of the slot and that Unicode's compatibility forms leave as they are."""
_UNSEEN = ("Z", "C")
"""Categories of spaces, marks of format and control characters."""


def count_slots(text: str) -> int:
    """Count the slots of a text.

    Raises:
        InvalidRequest: it spells one in another way, such as ``< Class >``: a reader would take it for the
            slot, and no token would ever stand there.
    """
    found = text.count(CLASS_SLOT)
    if _folded(text).count(CLASS_SLOT) != found:
        raise InvalidRequest(f"{text!r} spells the slot in another way: it is written {CLASS_SLOT!r}")
    return found


def require_slot(text: str) -> None:
    """Refuse a text that has not exactly one slot.

    Raises:
        InvalidRequest: it has none, several, or one that is spelled in another way.
    """
    slots = count_slots(text)
    if slots != 1:
        raise InvalidRequest(f"{text!r} has {slots or 'no'} slots {CLASS_SLOT!r}: a token wants one")


def refuse_slot(text: str) -> None:
    """Refuse a text with a slot where there is nothing to put into it.

    Raises:
        InvalidRequest: it has a slot, however spelled.
    """
    if count_slots(text):
        raise InvalidRequest(f"{text!r} has a slot {CLASS_SLOT!r}, and no token is given for it")


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).translate(_BRACKETS).casefold()
    return "".join(letter for letter in plain if not unicodedata.category(letter).startswith(_UNSEEN))
