"""Shifts of a dataset: the paper's catalogue as data, and shifts that a user puts into words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from faultline_core.class_prompts import (
    check_name,
    check_prompt,
    fill,
    is_photo,
    object_caption,
    shift_caption,
)
from faultline_core.class_slot import CLASS_SLOT
from faultline_core.errors import InvalidRequest
from faultline_core.texts import twin_key, twins

Family = Literal["background", "weather", "time", "lighting", "colour", "style", "co-occurrence", "own"]
"""What a shift changes; ``own`` is a user's."""

BASE = "base"
"""The name of what shifts are held against: the class without any shift."""

_A_WHOLE_PROMPT = re.compile(r"\bphoto(?:graph)? of\b", re.IGNORECASE)


@dataclass(frozen=True)
class Published:
    """What the paper found with one CLIP: the least similarity to a caption, and the share that passed."""

    checkpoint: str
    threshold: float
    share_kept: float


@dataclass(frozen=True)
class Shift:
    """One change of a dataset's pictures, in the words of a generator and of CLIP.

    ``prompt`` is generated from, and ``printed`` is what Table 1 has instead where that is misspelt, with
    ``note`` to say how. ``caption`` is what CLIP looks for. ``classes`` are the only ones that it applies
    to, all where None.
    """

    name: str
    prompt: str
    caption: str
    family: Family = "own"
    printed: str | None = None
    note: str = ""
    published: Published | None = None
    classes: frozenset[str] | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_prompt(self.prompt)
        check_name(self.caption, field="caption")
        if twin_key(self.name) == BASE:
            raise InvalidRequest(f"no shift may be named {self.name!r}: that is what shifts are held against")
        if self.classes is not None and not self.classes:
            raise InvalidRequest(f"the shift {self.name!r} applies to no class")

    @property
    def is_style(self) -> bool:
        """Whether its pictures are no photographs, so that no caption may call them so."""
        return not is_photo(self.prompt)

    def applies_to(self, class_name: str) -> bool:
        """Whether pictures of this class can show it: a cat sleeps, an aeroplane does not."""
        return self.classes is None or class_name in self.classes

    def only_for(self, classes: Iterable[str]) -> Shift:
        """Return the shift for these classes alone (DI, appendix D)."""
        return replace(self, classes=frozenset(classes))

    def as_printed(self) -> Shift:
        """Return the shift with the prompt as the paper prints it, misspelt or not."""
        return self if self.printed is None else replace(self, prompt=self.printed)

    def prompt_for(self, word: str, *, token: bool = False) -> str:
        """The prompt for a class by its name, or by its learned token."""
        return fill(self.prompt, word, token=token)

    def object_caption(self, class_name: str) -> str:
        """What CLIP looks for to see the class under this shift."""
        return object_caption(class_name, photo=not self.is_style)

    def published_threshold(self, checkpoint: str) -> float | None:
        """The paper's threshold, None for any other CLIP: similarities of two are not comparable."""
        known = self.published
        return known.threshold if known is not None and known.checkpoint == checkpoint else None


@dataclass(frozen=True)
class Catalogue:
    """The base prompt and its shifts; ``base_share_kept`` is the yield of the base."""

    base: str
    base_share_kept: float
    checkpoint: str
    shifts: tuple[Shift, ...]

    def find(self, name: str) -> Shift | None:
        """The shift of this name, case and spacing aside, or None."""
        return next((shift for shift in self.shifts if twin_key(shift.name) == twin_key(name)), None)


@cache
def catalogue() -> Catalogue:
    """The 23 shifts and the base of ImageNet* (DI, Table 1)."""
    text = (resources.files("faultline_core") / "shifts.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    return Catalogue(
        base=table["base"]["prompt"],
        base_share_kept=table["base"]["yield"],
        checkpoint=table["checkpoint"],
        shifts=tuple(_published(row, table["checkpoint"]) for row in table["shifts"]),
    )


def _published(row: dict[str, Any], checkpoint: str) -> Shift:
    words = {key: value for key, value in row.items() if key not in ("threshold", "yield")}
    return Shift(**words, published=Published(checkpoint, row["threshold"], row["yield"]))


def shift_of(
    text: str, *, name: str | None = None, caption: str | None = None, classes: Collection[str] | None = None
) -> Shift:
    """Read a shift: a name of the catalogue, words to say after the class, or a whole prompt with its slot.

    "in the snow" is Table 1's, "sleeping" becomes "a photo of a <class> sleeping", "a photo of an empty
    <class>" stays as it is. A name or caption that is given replaces the one that follows from the text.

    Raises:
        InvalidRequest: the text is none of these; it says why.
        PromptTooLong: it has more words than any text encoder reads.
    """
    known = None if CLASS_SLOT in text else catalogue().find(text)
    shift = known or (_from_prompt(text) if CLASS_SLOT in text else _from_words(text))
    if name is not None:
        shift = replace(shift, name=name)
    if caption is not None:
        # A threshold belongs to the words that CLIP was asked.
        shift = replace(shift, caption=caption, published=None)
    return shift if classes is None else shift.only_for(classes)


def _from_words(text: str) -> Shift:
    check_name(text, field="shift")
    if _A_WHOLE_PROMPT.search(text):
        raise InvalidRequest(
            f"the shift {text!r} reads as a whole prompt, but has no {CLASS_SLOT} for the class",
            pointer="/shift",
        )
    return Shift(name=text, prompt=f"a photo of a {CLASS_SLOT} {text}", caption=f"a photo {text}")


def _from_prompt(prompt: str) -> Shift:
    check_prompt(prompt, field="shift")
    caption = shift_caption(prompt)
    if caption in ("", "a photo", "photo"):
        raise InvalidRequest(f"the prompt {prompt!r} is the base: it names no shift", pointer="/shift")
    return Shift(name=prompt.replace(CLASS_SLOT, "…"), prompt=prompt, caption=caption)


def check_distinct(shifts: Iterable[Shift]) -> None:
    """Refuse shifts whose names a reader cannot tell apart.

    Raises:
        InvalidRequest: two have one name.
    """
    alike = twins(shift.name for shift in shifts)
    if alike is not None:
        raise InvalidRequest(f"two shifts are named alike: {alike[0]!r} and {alike[1]!r}", pointer="/shifts")
