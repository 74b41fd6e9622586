"""Shifts of a dataset: the paper's catalogue, and shifts that a user describes in words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from counterpose_core.errors import InvalidRequest
from counterpose_core.text.class_prompts import (
    CLASS_SLOT,
    check_name,
    check_prompt,
    fill,
    is_photo,
    object_caption,
    shift_caption,
)
from counterpose_core.text.plain_text import find_confusable, twin_key

Family = Literal["background", "weather", "time", "lighting", "colour", "style", "co-occurrence", "own"]
"""The aspect that a shift changes; ``own`` is a shift of a user."""

BASE = "base"
"""The name of the base condition, the class without a shift, that shifts are compared with."""

_A_WHOLE_PROMPT = re.compile(r"\bphoto(?:graph)? of\b", re.IGNORECASE)


@dataclass(frozen=True)
class Published:
    """The paper's results with one CLIP: the least similarity to a caption, and the share that passed."""

    checkpoint: str
    threshold: float
    share_kept: float


@dataclass(frozen=True)
class Shift:
    """One change of a dataset's images, in the words of a generator and of CLIP.

    Images are generated from ``prompt``. If Table 1 misspells it, ``printed`` is the prompt there and
    ``note`` explains the difference. ``caption`` is the text that CLIP compares images with. ``classes`` are
    the classes that the shift applies to, or None for all.
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
            raise InvalidRequest(
                f"a shift cannot be named {self.name!r}, the name of the base condition; rename it"
            )
        if self.classes is not None and not self.classes:
            raise InvalidRequest(
                f"the shift {self.name!r} applies to no class; name at least one, or leave classes out"
            )

    @property
    def is_style(self) -> bool:
        """True if its images are not photographs, so that captions must not call them photos."""
        return not is_photo(self.prompt)

    def applies_to(self, class_name: str) -> bool:
        """Return True if images of this class can show the shift: a cat sleeps, an aeroplane does not."""
        return self.classes is None or class_name in self.classes

    def only_for(self, classes: Iterable[str]) -> Shift:
        """Return the shift for these classes only (DI, appendix D)."""
        return replace(self, classes=frozenset(classes))

    def prompt_for(self, word: str, *, token: bool = False) -> str:
        """Return the prompt for a class, by its name or by its learned token."""
        return fill(self.prompt, word, token=token)

    def object_caption(self, class_name: str) -> str:
        """Return the caption that CLIP compares images with to find the class under this shift."""
        return object_caption(class_name, photo=not self.is_style)

    def published_threshold(self, checkpoint: str) -> float | None:
        """Return the paper's threshold, or None for another CLIP, whose similarities are not comparable."""
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
        """Return the shift of this name, ignoring case and spacing, or None."""
        return next((shift for shift in self.shifts if twin_key(shift.name) == twin_key(name)), None)


@cache
def catalogue() -> Catalogue:
    """Return the 23 shifts and the base of ImageNet* (DI, Table 1)."""
    text = (resources.files("counterpose_core") / "shifts.toml").read_text(encoding="utf-8")
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
    """Return the shift that a text describes.

    Args:
        text: a name of the catalogue ("in the snow"), words to write after the class ("sleeping" becomes "a
            photo of a <class> sleeping"), or a whole prompt with a slot ("a photo of an empty <class>").
        name: replaces the name that follows from the text.
        caption: replaces the caption that follows from the text; a published threshold is then dropped.
        classes: the classes that the shift applies to; None for all.

    Raises:
        InvalidRequest: the text is none of these, or a name, caption or list of classes is invalid.
        PromptTooLong: it has more words than any text encoder reads.
    """
    known = None if CLASS_SLOT in text else catalogue().find(text)
    shift = known or (_from_prompt(text) if CLASS_SLOT in text else _from_words(text))
    if name is not None:
        shift = replace(shift, name=name)
    if caption is not None:
        # A threshold is valid only for the caption it was set for.
        shift = replace(shift, caption=caption, published=None)
    return shift if classes is None else shift.only_for(classes)


def _from_words(text: str) -> Shift:
    check_name(text, field="shift")
    if _A_WHOLE_PROMPT.search(text):
        raise InvalidRequest(
            f"the shift {text!r} looks like a whole prompt but has no {CLASS_SLOT} for the class; add it",
            pointer="/shift",
        )
    return Shift(name=text, prompt=f"a photo of a {CLASS_SLOT} {text}", caption=f"a photo {text}")


def _from_prompt(prompt: str) -> Shift:
    check_prompt(prompt, field="shift")
    caption = shift_caption(prompt)
    if caption in ("", "a photo", "photo"):
        raise InvalidRequest(f"the prompt {prompt!r} is the base prompt; add a shift to it", pointer="/shift")
    return Shift(name=prompt.replace(CLASS_SLOT, "…"), prompt=prompt, caption=caption)


def check_distinct(shifts: Iterable[Shift]) -> None:
    """Check that a reader can tell the names of shifts apart.

    Raises:
        InvalidRequest: two names look alike.
    """
    alike = find_confusable(shift.name for shift in shifts)
    if alike is not None:
        raise InvalidRequest(
            f"the shift names {alike[0]!r} and {alike[1]!r} are indistinguishable; rename one",
            pointer="/shifts",
        )
