"""Which operations may change the label of a class that is called as letters, digits, arrows or signs are."""

from __future__ import annotations

import re

from counterpose_core.transforms.table import Operation

_FORMS = {
    "letters": re.compile(r"[^\W\d_]|(.*\b)?letters?(\b.*)?"),
    "digits": re.compile(r"\d+|(.*\b)?(digits?|numerals?)(\b.*)?"),
    "arrows": re.compile(r"(.*\b)?arrows?(\b.*)?"),
    "signs": re.compile(r"(.*\b)?signs?(\b.*)?"),
}
"""How classes of a kind are called, by the word that `Operation.may_change` has for the kind.

Other kinds, such as classes that differ by colour, no name tells: the dataset's owner excludes those.
"""


def changed_kind(row: Operation, label: str) -> str | None:
    """Return the kind of a class whose label an operation may change, or None if its name tells none.

    >>> changed_kind(operation("flip-horizontal"), "6")
    'digits'
    """
    name = label.strip().casefold()
    return next(
        (kind for kind, form in _FORMS.items() if kind in row.may_change and form.fullmatch(name)), None
    )
