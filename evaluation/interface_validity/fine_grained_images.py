"""Images of buses under code names: what was requested, and what each image shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_miniature.world.wording import SPECIAL_SUBJECTS
from evaluation.interface_validity.fine_grained_world import FINE_CLASSES, INITIALISER

from .images import Seen
from .world_shifts import BY_NAME, WORLD_SHIFTS, WorldShift

FineImageSource = Literal["token", "shared-word", "description"]
"""How a prompt names the code: by its token, by the word all tokens started from, or by a description."""

FINE_SHIFTS: tuple[WorldShift, ...] = tuple(
    shift for shift in WORLD_SHIFTS if shift.value in ("snow", "night", "sketch", "dog")
)
"""One of each attribute that shifts change."""

ANOTHER_BUS, NO_BUS = "another bus", "no bus"
_CODES = {shown: code for code, shown in FINE_CLASSES.items()}


@dataclass(frozen=True)
class FineImage:
    """One image of a code under a condition (which may be the base), and what the oracle sees in it.

    Images of one code, condition and seed start from the same noise for every image source.
    """

    image_source: FineImageSource
    code: str
    shift: str
    seed: int
    seen: Seen

    @property
    def shows_object(self) -> bool:
        """Whether it is a bus."""
        return self.seen["object_class"] == INITIALISER

    @property
    def shows_kind(self) -> bool:
        """Whether it is of the code's kind, with an upper deck or without."""
        return self.seen["kind"] == FINE_CLASSES[self.code][0]

    @property
    def shows_colour(self) -> bool:
        """Whether it has the code's colour."""
        return self.seen["colour"] == FINE_CLASSES[self.code][1]

    @property
    def shows_shift(self) -> bool:
        """Whether it shows its shift; true for a base image, which has none."""
        return self.shift == BASE or BY_NAME[self.shift].shown_by(self.seen)

    @property
    def shown(self) -> str:
        """The code whose bus it shows, `ANOTHER_BUS` for a bus of no code, or `NO_BUS`."""
        if not self.shows_object:
            return NO_BUS
        return _CODES.get((self.seen["kind"], self.seen["colour"]), ANOTHER_BUS)

    @property
    def shows_code(self) -> bool:
        """Whether it shows what the code stands for: a bus of its kind and colour."""
        return self.shown == self.code


@dataclass(frozen=True)
class FineGrained:
    """Images of every code by every image source; ``shares``: how much of what it learned a token keeps."""

    images: Sequence[FineImage]
    shares: Mapping[str, Sequence[float]]


def words_of(image_source: FineImageSource, code: str) -> str | None:
    """The words for a code in a prompt of this image source; None where its token stands there."""
    if image_source == "token":
        return None
    kind, colour = FINE_CLASSES[code]
    if image_source == "shared-word":
        return INITIALISER
    return (
        SPECIAL_SUBJECTS[INITIALISER].format(f"{colour} ") if kind == "special" else f"{colour} {INITIALISER}"
    )


def joined_fine_grained(given: Sequence[FineGrained | None]) -> FineGrained | None:
    """Join the stretches that have such images; None if none has.

    Seeds depend on the stretch, so no two stretches share one.
    """
    found = [one for one in given if one is not None]
    if not found:
        return None
    return FineGrained(
        images=[image for one in found for image in one.images],
        shares={code: [share for one in found for share in one.shares[code]] for code in found[0].shares},
    )
