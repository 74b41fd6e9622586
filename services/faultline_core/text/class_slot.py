"""The slot of a prompt that a learned token fills: ``a photo of a <class> in the snow``."""

from __future__ import annotations

import unicodedata

from faultline_core.errors import InvalidRequest

CLASS_SLOT = "<class>"
_BRACKETS = str.maketrans(dict.fromkeys("‹〈⟨❮❰«《", "<") | dict.fromkeys("›〉⟩❯❱»》", ">"))
"""Brackets that look like the slot's and that Unicode's compatibility normalisation does not change."""
_UNSEEN = ("Z", "C")
"""Unicode categories of spaces, format marks and control characters."""


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
